# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What root installs on machines from a package index. Written by `make lock`."""

from __future__ import annotations

from typing import Dict, Tuple

Words = Tuple[str, ...]
# SHA-256 of the files of a version that a machine may get.
HASHES: Dict[str, Words] = {
    "ansible-core==2.19.14": ("d518d0e96fa75bedfe9b0a96d5b158aa712d092961824c115140c8677b88ff06",),
    "ansible-core==2.21.5": ("08886f9f3e23d129aa98a01271c4a47833516e1cb7c737a246788cb474f41222",),
    "jinja2==3.1.6": ("85ece4451f492d0c13c5dd7c13a64681a86afae63a5f347908daf103ce6d2f67",),
    "markupsafe==3.0.4": (
        "1caa2fa5a6184fb233153b35f654e6687bd555476f6170f29d8ee9be1a8b0af9",
        "434139499bb20b502ed3baa1f169e618f924a97e7a777fea1a49446d80106cf6",
        "6a45c3d514f2436064db00d7fc8778d888f0236ebfed649b53d13a59e69ad51b",
        "6da83a088f8ef93b2d483a8232a4dbf4d69d3d8496b568a03c56becac43e1808",
        "7018d4af1cd272e847aa5917983ab5e83e4f6579f9dbfecd4a79c0ca80b144c2",
        "849dd2bb0e5e4ab2b71c7191726a4a8d5aa8a610daa584728cbee0b710ddc4ef",
        "8e124f974786f831d6043728e38296969d3579db8896fe004682f5758e613581",
        "a8e9f292fcda89b324f2f5c91d13f1424a153e40fc2756f38ee23b15835ff300",
    ),
    "packaging==26.3": ("d7193f7c8e4e93f444fde0262bf90af30e16fa0ad0ad44cb553c87339b23cd1c",),
    "pyyaml==6.0.3": (
        "0f29edc409a6392443abf94b9cf89ce99889a1dd5376d94316ae5145dfedd5d6",
        "10892704fc220243f5305762e276552a0395f7beb4dbf9b14ec8fd43b57f126c",
        "501a031947e3a9025ed4405a168e6ef5ae3126c59f90ce0cd6f2bfc477be31b7",
        "9149cad251584d5fb4981be1ecde53a1ca46c891a79788c0df828d2f166bda28",
        "b8bb0864c5a28024fac8a632c443c87c5aa6f215c0b126c449ae1a150412f31d",
        "ba1cc08a7ccde2d2ec775841541641e4548226580ab850948cbfda66a1befcdc",
        "c458b6d084f9b935061bc36216e8a69a7e293a2f1e68bf956dcd9e6cbcd143f5",
        "ee2922902c45ae8ccada2c5b501ab86c36525b883eff4255313a253a3160861c",
    ),
    "uv==0.13.8": (
        "0b3e8b1a4f5e405e31e2ff33de8af4744831e9f7338539671efbd8c3c94e791d",
        "5337c30bb893b4f9ce0ceb921ba2da0d13f649da644f40ad3bef84083bef0203",
        "e18a57b8b352eb7c8feb317b9f6f533c8f0ad9673fd6cf34bbe3cf1a9f6a8984",
    ),
}
# ansible-core and what it imports, by the oldest Python that runs it.
ENGINES: Dict[str, Words] = {
    "3.12": (
        "ansible-core==2.21.5",
        "jinja2==3.1.6",
        "markupsafe==3.0.4",
        "packaging==26.3",
        "pyyaml==6.0.3",
    ),
    "3.11": (
        "ansible-core==2.19.14",
        "jinja2==3.1.6",
        "markupsafe==3.0.4",
        "packaging==26.3",
        "pyyaml==6.0.3",
    ),
}


def requirements(*pins: str) -> str:
    """Write versions for a requirements file, with the hashes that are known."""
    return "".join(
        " ".join([pin, *(f"--hash=sha256:{value}" for value in HASHES.get(pin, ()))]) + "\n"
        for pin in pins
    )
