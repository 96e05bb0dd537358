"""The workflows of .github, the forms of its issues and the Dockerfile: linters for them find no fault, and each can
find one.

What breaks these tests: an action or an expression that GitHub does not support, a permission that a job does not
need, a missing script, a form without the output of `gpumem doctor`."""

import re
import sys

import harness
import pytest
import yaml

GITHUB = harness.ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
DOCS, RELEASE, TEST = ((GITHUB / "workflows" / f"{name}.yml") for name in ("docs", "release", "test"))
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
DOCKERFILE = harness.ROOT / "packaging" / "Dockerfile"


@pytest.fixture
def linter(python_env):
    """linter("actionlint") is the path of a linter's program."""
    return lambda name: python_env("lint").parent / name


def parsed(path):
    return yaml.load(path.read_text(), yaml.BaseLoader)


def matches(schema, *paths):
    return harness.run([sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *paths], check=False)


def test_what_there_is():
    assert [path.stem for path in WORKFLOWS] == ["advisories", "docs", "release", "test", "wheels"]
    assert [path.stem for path in FORMS] == ["bug", "feature", "wrong-figure"]


def test_actionlint(linter, tmp_path):
    done = harness.run([linter("actionlint"), "-no-color", *WORKFLOWS], check=False)
    assert (done.returncode, done.stdout) == (0, ""), harness.described(done)
    broken = tmp_path / "broken.yml"
    broken.write_text(DOCS.read_text().replace("github.ref", "github.reff").replace("checkout@v6", "checkout@v4"))
    said = harness.run([linter("actionlint"), "-no-color", broken], check=False).stdout
    assert 'property "reff" is not defined' in said and "deprecated" in said, said


def test_zizmor(linter, tmp_path):
    """No permission that a job does not need, no credentials left in a checkout, no text of a pull request in a script."""
    command = [linter("zizmor"), "--offline", "--no-progress", "--quiet", "--config", GITHUB / "zizmor.yml"]
    done = harness.run([*command, GITHUB, harness.ROOT / "scripts" / "ci" / "github"], check=False)
    assert done.returncode == 0, harness.described(done)
    broken = tmp_path / "broken.yml"
    text = TEST.read_text().replace("run: .ci/run", "run: echo ${{ github.event.pull_request.title }}")
    broken.write_text(text.replace("actions/cache@v5", "someone/cache@v5"))
    said = harness.run([*command, broken], check=False).stdout
    assert "template-injection" in said and "unpinned-uses" in said, said


@pytest.mark.parametrize(
    ("schema", "paths", "wrong"),
    [
        ("github-workflows", WORKFLOWS, ("runs-on:", "runs-onn:")),
        ("github-issue-forms", FORMS, ("type: textarea", "type: novel")),
        ("github-issue-config", [GITHUB / "ISSUE_TEMPLATE" / "config.yml"], ("about:", "around:")),
    ],
)
def test_the_published_schemas_take_them(schema, paths, wrong, tmp_path):
    done = matches(schema, *paths)
    assert done.returncode == 0, harness.described(done)
    broken = tmp_path / paths[0].name
    broken.write_text(paths[0].read_text().replace(*wrong))
    assert matches(schema, broken).returncode == 1


def test_workflows_run_the_scripts_of_a_laptop():
    """A workflow has no separate build: it runs a script of the repository, or installs the output of one."""
    scripts = set()
    for path in WORKFLOWS:
        said = parsed(path)
        assert said["permissions"] == {"contents": "read"}, path
        for job in said["jobs"].values():
            assert int(job["timeout-minutes"]) <= 120
            for step in job["steps"]:
                if step.get("uses", "").startswith("actions/checkout@"):
                    assert step["with"]["persist-credentials"] == "false", path
                if "run" in step:
                    assert "${{" not in step["run"] and "\n" not in step["run"], step
                    scripts.update(re.findall(r"(?:scripts/|\.ci/)\S+", step["run"]))
    assert scripts == {".ci/run", "scripts/advisories", "scripts/wheel", "scripts/release", "scripts/docs"}
    # scripts/docs comes with the site.
    assert not [script for script in scripts - {"scripts/docs"} if not (harness.ROOT / script).exists()]


def test_what_signs_runs_actions_of_known_commits():
    """A tag can be moved to other code; a commit's hash cannot."""
    used = re.findall(r"uses: (\S+)(.*)", RELEASE.read_text().partition("  # PyPI's trusted")[0])
    assert len(used) == 5
    for action, comment in used:
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action


def test_advisories_are_checked_weekly():
    said = parsed(GITHUB / "workflows" / "advisories.yml")
    [schedule] = said["on"]["schedule"]
    assert re.fullmatch(r"\d+ \d+ \* \* [0-6]", schedule["cron"])
    script = (harness.ROOT / "scripts" / "advisories").read_text()
    assert "check advisories" in script and "npm audit" in script


def test_nothing_is_published_by_itself():
    """A release is a draft, and PyPI waits for the project's name."""
    lines = (GITHUB / "workflows" / "release.yml").read_text().splitlines()
    active = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    assert "--draft" in active and "attest-build-provenance" in active and "pypi" not in active.lower()
    assert "pypa/gh-action-pypi-publish" in "\n".join(lines)
    for page in ("README.md", "python/README.md", "docs/wheel.md"):
        assert not re.search(r"^\s*pip install libgpumem", (harness.ROOT / page).read_text(), re.M), page


def test_forms_ask_for_what_is_needed():
    for path in FORMS:
        fields = {field["id"]: field for field in parsed(path)["body"]}
        assert "gpumem doctor" in fields["doctor"]["attributes"]["description"], path
        required = {name for name, field in fields.items() if field.get("validations", {}).get("required") == "true"}
        if path.stem != "feature":
            assert "doctor" in required and "gpumem-analyze check" in fields["check"]["attributes"]["description"]


def test_the_dockerfile(linter, tmp_path):
    """It has not been built here: no registry of images can be reached."""
    done = harness.run([linter("hadolint"), "--no-color", DOCKERFILE], check=False)
    assert done.returncode == 0, harness.described(done)
    broken = tmp_path / "Dockerfile"
    broken.write_text(DOCKERFILE.read_text().replace("--no-cache-dir ", "").replace("WORKDIR /work", "RUN cd /work"))
    said = harness.run([linter("hadolint"), "--no-color", broken], check=False).stdout
    assert "DL3042" in said and "DL3003" in said, said
    version = re.search(r'^version = "(.*)"$', (harness.ROOT / "Cargo.toml").read_text(), re.M)[1]
    assert f"ARG VERSION={version}\n" in DOCKERFILE.read_text()
