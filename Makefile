# One entry for a laptop and for CI. A fresh machine needs Python 3.11-3.13, pip and make, nothing else.
PYTHON ?= python3
VENV   ?= .venv
PIP    := $(VENV)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt
RUN    := $(VENV)/bin/python

# Bytecode is kept whatever the machine says: without it every process of the tests compiles all of the source.
export PYTHONDONTWRITEBYTECODE :=

FONTS := fonts-wqy-microhei fonts-dejavu-extra
.PHONY: demo zoo test test-all suite test-gpu check format docs notebooks recording site fuzz bench clean

# The built-in models at work, and a small one that learns: under a minute once it is installed.
demo: $(VENV)/.installed
	$(RUN) -m glassformer demo
	@echo '  (so that glassformer is found: . $(VENV)/bin/activate)'

# Every law and every family, in minutes: of a large product few cases, of random examples a third.
test: WHICH := -m "not slow" --hypothesis-profile quick
# Also what takes long: kill -9 at random moments, torchrun, real training, every real data set, whole products.
test-all: WHICH :=
test-all: $(VENV)/.ip
test test-all: $(VENV)/.browser
	$(MAKE) --no-print-directory --jobs 2 check suite WHICH='$(WHICH)'

# Beside check, which has looked at the imports.
suite:
	$(RUN) -m pytest -n 3 --ignore tests/test_import_rules.py $(WHICH)

# On a machine with a GPU, in the Python that is there: it needs the core dependencies, pytest and hypothesis.
test-gpu:
	PYTHONPATH=src $(PYTHON) -m pytest -m gpu -p no:cacheprovider tests/blocks tests/engine tests/generate tests/laws

check: $(VENV)/.installed-test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(RUN) -m pytest --noconftest tests/test_import_rules.py

format: $(VENV)/.installed-test
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

docs: $(VENV)/.installed
	$(RUN) docs/generate.py

# Runs the notebooks and stores what they show. One of them: make notebooks ONLY=03
notebooks: $(VENV)/.installed-test
	$(RUN) notebooks/run.py $(ONLY)

# The recording of the studio in the README, made anew; the Chinese part needs a font such as fonts-noto-cjk.
recording: $(VENV)/.browser
	$(RUN) -m docs.recording

# The same pages for a browser, in site/: search, light and dark, mathematics; nothing in them is loaded from elsewhere.
site: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict

# Random edits of files that are right: to be carried out or refused in one line. COUNT=1000 SEED=3 make fuzz
fuzz: $(VENV)/.installed-test
	HF_HUB_OFFLINE=1 PYTHONPATH=tests $(RUN) -m fuzz.sweep --count $(or $(COUNT),20000) --seed $(or $(SEED),0)

# The built-in models, trained by recipes/zoo on the data in $GLASSFORMER_DATA. One of them: make zoo ONLY=lstm-sentiment
zoo: $(VENV)/.installed
	$(RUN) recipes/zoo/build.py $(ONLY)

bench: $(VENV)/.installed-bench
	$(RUN) -m benchmarks

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis

# torch comes first, at the pinned version: a looser request would fetch gigabytes of CUDA packages.
$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(PIP) "$$(grep ^torch== constraints.txt)"
	$(PIP) -e .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(PIP) -e ".[test]"
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(PIP) -e ".[docs]"
	touch $@

# Pages are tested in a real browser: one that is here, else Debian's, else Playwright's own. The fonts are for Chinese and
# for formulas: without them, characters are empty boxes and subscripts stand on the line.
$(VENV)/.browser: $(VENV)/.installed-test
	{ $(RUN) tests/browser.py \
	|| { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium $(FONTS); } \
	|| $(RUN) -m playwright install chromium; } && touch $@ \
	|| echo "there is no browser: the tests of pages will be skipped, and say what is missing"
	fc-list :lang=zh | grep -q . || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq --no-install-recommends $(FONTS); } \
	|| echo "there is no Chinese font: tests that look at Chinese will be skipped; install $(FONTS)"

# Tests on two machines make these out of network namespaces, with ip, as root.
$(VENV)/.ip: $(VENV)/.installed
	{ command -v ip > /dev/null \
	|| { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq --no-install-recommends iproute2; }; } && touch $@ \
	|| echo "there is no ip: tests on two machines will be skipped; install iproute2"

$(VENV)/.installed-bench: $(VENV)/.installed
	$(PIP) -e ".[bench]"
	touch $@
