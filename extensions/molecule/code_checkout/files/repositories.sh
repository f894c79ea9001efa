#!/bin/bash
# Three repositories with fixed commits: one with a submodule and a file in Git LFS, its submodule, and that one's own.
set -euo pipefail
command -v git-lfs > /dev/null || { apt-get update -qq; apt-get install -qq -y --no-install-recommends git git-lfs > /dev/null; }
export HOME=/srv/molecule GIT_CONFIG_GLOBAL=/dev/null
export GIT_AUTHOR_NAME=molecule GIT_AUTHOR_EMAIL=molecule@localhost GIT_AUTHOR_DATE='2026-01-01T00:00:00Z'
export GIT_COMMITTER_NAME=molecule GIT_COMMITTER_EMAIL=molecule@localhost GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'
git config --system --replace-all safe.directory '*'
git config --system protocol.file.allow always
rm -rf /srv/molecule && mkdir -p /srv/molecule/src && cd /srv/molecule/src

repository() { git init --quiet --initial-branch=main "$1"; cd "$1"; }

(repository innermost; echo deep > deep.txt; git add . && git commit -qm 'Be deep')
(repository inner; echo 'inner = 1' > inner.py; git submodule --quiet add /srv/molecule/src/innermost innermost
 git add . && git commit -qm 'Be inside')
(repository hello; git lfs install --local > /dev/null
 echo 'print("hello")' > hello.py; echo '*.log' > .gitignore; git add .; git commit -qm 'Say hello'; git tag -a v1 -m 'One'
 git submodule --quiet add /srv/molecule/src/inner inner
 git lfs track '*.bin' > /dev/null; seq 1000 > weights.bin; git add . && git commit -qm 'Grow')
cd /srv/molecule
for name in innermost inner hello; do git clone --quiet --bare "src/$name" "$name.git"; done
(cd src/hello && git lfs push --all file:///srv/molecule/hello.git > /dev/null)
chmod -R a+rX /srv/molecule
touch done
