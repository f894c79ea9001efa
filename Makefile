# demo: the main job on the local cloud. test: everything that CI runs. check: the quick inner loop.
.PHONY: demo demo-down test test-all check venv docs site release lock frameworks help
.DEFAULT_GOAL := help

help:
	@echo "make demo       set up everything and run the main job on the local cloud; FRAMEWORK=torch_xla: with PyTorch"
	@echo "make demo-down  remove what the demo made"
	@echo "make test       set up everything and run all tests"
	@echo "make test-all   the same, then what is too long for each run of CI: most of a night"
	@echo "make check      lint, types and unit tests (under two minutes)"
	@echo "make venv       only set up .venv"
	@echo "make docs       write the pages of docs/ that are made from the code"
	@echo "make site       build the documentation as a site in .work/site"
	@echo "make release    build the collection and the wheels in dist/ and check them as one who installs them"
	@echo "make lock       pin the requirements anew after a change in pyproject.toml"
	@echo "make frameworks write the table of frameworks from the package index; then make docs"

venv:
	@scripts/venv

# The script calls scripts/venv, once it knows that it can do what is asked.
demo:
	@scripts/demo

demo-down:
	@scripts/demo down

check: venv
	@scripts/run_tests.py check

test test-all: venv
	@scripts/test-packages
	@.venv/bin/tpu-fleet cloud prepare --install
	@scripts/run_tests.py $@

docs: venv
	@.venv/bin/python scripts/render_docs.py

site: venv
	@scripts/environment docs
	@.work/docs/bin/python scripts/site/build.py

release: venv
	@scripts/release

frameworks: venv
	@.venv/bin/python scripts/write_frameworks.py

lock:
	.venv/bin/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.11 \
		--constraint requirements/constraints.in --group dev pyproject.toml local_cloud/pyproject.toml --output-file requirements/dev.txt
	for group in bench docs galaxy; do \
		.venv/bin/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.11 \
			--constraint requirements/constraints.in --group $$group --output-file requirements/$$group.txt || exit 1; \
	done
	.venv/bin/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.12 \
		requirements/buckets.in --output-file requirements/buckets.txt
	for programs in clients hydra iris xprof; do \
		.venv/bin/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.11 \
			requirements/$$programs.in --output-file requirements/$$programs.txt || exit 1; \
	done
	echo uv==$$(sed -n 's/^uv==//p' requirements/constraints.in) | .venv/bin/uv pip compile --quiet --universal \
		--generate-hashes --no-header --no-annotate --python-version 3.11 - --output-file requirements/bootstrap.txt
	for python in 3.11 3.12; do \
		grep '^ansible-core==' requirements/constraints.in | .venv/bin/uv pip compile --quiet --generate-hashes --no-header --no-annotate --only-binary :all: \
			--python-version $$python --python-platform linux - \
			--output-file requirements/machine-$$python.txt || exit 1; \
	done
	.venv/bin/python scripts/pin_machines.py
	echo tpu-info==$$(sed -n "s/^tpu_metrics_tpu_info_version: .*default('\([0-9.]*\)').*/\1/p" roles/tpu_metrics/defaults/main.yml) \
		| .venv/bin/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --only-binary :all: \
		--python-version 3.10 - --output-file roles/tpu_metrics/files/tpu-info.txt
