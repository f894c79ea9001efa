"""The page of a verdict: it runs nothing, escapes everything, and stays small."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from run_evidence import ALL_REDUCE, QUEUE_GET, STEP, case, process, seen, thread

from tpu_fleet.why import page
from tpu_fleet.why.case import Case
from tpu_fleet.why.judge import judge
from tpu_fleet.why.page import coded, html_of, policy

AT = 1_795_644_000.0
MARKUP = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><script>alert(1)</script>",
    "</pre></details><iframe src=//evil.example>",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "<a href=//evil.example>x</a>",
    "\u202eevil\u202c",
)


class Parts(HTMLParser):
    """The elements and attributes of a page, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.attributes |= {name for name, _value in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def parts_of(html: str) -> Parts:
    parts = Parts()
    parts.feed(html)
    return parts


def hung(**more: Any) -> Case:
    return case(*[seen(at, ALL_REDUCE) for at in range(3)], seen(3, QUEUE_GET, **more))


def test_the_page_has_the_sentence_the_table_and_the_stacks() -> None:
    text = parts_of(html_of([judge([hung()])], AT)).text
    assert "Worker 3 waits for data in queue.get (data.py:88) for 14 min" in text
    assert "pod-w[0-2]" in text
    assert "next_batch  /home/alice/digits/data.py:88" in text
    assert "2026-11-25 22:00:00 UTC" in text


def test_code_and_the_users_lines_stand_out() -> None:
    html = html_of([judge([hung()])], AT)
    assert "waits for data in <code>queue.get</code> (data.py:88)" in html
    assert "<b>next_batch  /home/alice/digits/data.py:88</b>\n" in html
    assert "\nget  /usr/lib/python3.12/queue.py:171\n" in html
    assert coded("a `<b>` c") == "a <code>&lt;b&gt;</code> c"
    assert coded("a ` <b>") == "a ` &lt;b&gt;"


@pytest.mark.parametrize("evil", MARKUP)
def test_no_text_of_a_worker_becomes_markup(evil: str) -> None:
    plain = parts_of(html_of([judge([hung(error=["E: x"], notes=["x"])])], AT))
    told = seen(
        3,
        [[evil, f"/home/{evil}.py", 3]],
        processes=[process(4003, thread(4003, [[evil, evil, 3]], name=evil), command=evil)],
        error=[evil],
        notes=[evil],
        versions={"code": evil},
        run={"reason": evil, "log_tail": [evil]},
    )
    told["host"] = evil
    html = html_of([judge([case(*[seen(at, ALL_REDUCE) for at in range(3)], told)])], AT)
    found = parts_of(html)
    assert set(found.tags) - set(plain.tags) <= {"ul", "li", "code"}
    assert found.attributes <= plain.attributes
    assert not re.search(r"\bon\w+=", re.sub(r">[^<]*<", "><", html))
    assert "\u202e" not in html
    if "{" in evil:
        assert evil in found.text


def test_a_browser_may_neither_fetch_nor_run_anything() -> None:
    html = html_of([judge([hung()])], AT)
    assert "<script" not in html
    assert policy().startswith("default-src 'none'; style-src 'sha256-")
    assert policy() in html.replace("&#39;", "'")
    assert not re.search(r"(src|href)=", html)
    assert " style=" not in html


def test_what_looks_like_a_secret_is_on_no_page() -> None:
    secret = "hf_" + "s3cret" * 5
    told = seen(
        3,
        processes=[process(4003, thread(4003, QUEUE_GET), command=f"python t.py --key={secret}")],
        error=[f"ValueError: bad token {secret}"],
        notes=[f"WANDB_API_KEY={secret}"],
        run={"log_tail": [f"https://alice:{secret}@example.org"]},
    )
    verdict = judge([case(seen(0, ALL_REDUCE), told)])
    assert "s3cret" not in html_of([verdict], AT)
    assert "s3cret" not in verdict.answer.sentence


def test_a_page_of_many_workers_with_deep_stacks_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deep = [["f" * 200, "/home/alice/" + "x" * 200 + ".py", 3]] * 30
    many = [thread(9000 + at, deep) for at in range(60)]
    told = [seen(at, processes=[process(4000 + at, *many)]) for at in range(5)]
    monkeypatch.setattr(page, "MOST_FRAMES", 1500)
    html = html_of([judge([case(*told)])], AT)
    assert len(html) < 2_500_000
    assert "Not shown here: 20 more threads. They are in pod-w0.txt" in html
    assert "Not shown here: 60 more threads. They are in pod-w4.txt" in html


def test_slices_have_a_section_each() -> None:
    fine = case(seen(0, STEP, run={"step_age_s": 0.1}))
    html = html_of([judge([hung()]), judge([fine])], AT)
    assert html.count('<div class="answer bad">') == 1
    assert html.count('<div class="answer good">') == 1
