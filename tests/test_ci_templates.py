"""The GitHub action and the GitLab template of `gpumem ci`: their form, and their scripts run on a real repository.

A pull request with a planted growth of 3 % goes through the scripts as the platform would run them; `gh` and `curl`
are programs that record their arguments."""

import json
import os
import re
import stat
import subprocess
import sys

import harness
import pytest
import yaml
from test_ci import PLANTED, PROGRAM, commit, git

ACTION = harness.ROOT / "scripts" / "ci" / "github" / "action.yml"
TEMPLATE = harness.ROOT / "scripts" / "ci" / "gitlab" / "gpumem.yml"
RUN = 'gpumem run --simulate -q -o "$GPUMEM_CAPTURES/train.bin" train.py train'
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


@pytest.fixture(scope="module")
def action():
    return yaml.safe_load(ACTION.read_text())


@pytest.fixture(scope="module")
def template():
    return yaml.safe_load(TEMPLATE.read_text())


def is_sound(script):
    """It stops at the first error, and bash can read it."""
    assert script.startswith("set -euo pipefail\n"), script
    subprocess.run(["bash", "-n", "-c", script], check=True)


def test_the_action_has_what_github_asks_for(action):
    assert {"name", "description", "inputs", "outputs", "runs"} == set(action)
    assert action["runs"]["using"] == "composite"
    for key in ("inputs", "outputs"):
        assert all(entry["description"] for entry in action[key].values())
    steps = action["runs"]["steps"]
    ids = [step["id"] for step in steps if "id" in step]
    assert len(set(ids)) == len(ids)
    text = json.dumps(action)
    inputs = set(re.findall(r"\binputs\.([\w-]+)", text))
    assert inputs == set(action["inputs"]), "each input is used, and each that is used exists"
    assert set(re.findall(r"\bsteps\.([\w-]+)", text)) <= set(ids)
    known = ("inputs.", "steps.", "github.", "runner.temp")
    assert all(found.startswith(known) for found in EXPRESSION.findall(text))
    for step in steps:
        assert step.get("name") and ("run" in step) != ("uses" in step), step
        if "run" in step:
            assert step["shell"] == "bash", step
            is_sound(step["run"])
            # The texts of a pull request are never a part of a script.
            assert "${{" not in step["run"], step
        else:
            assert re.fullmatch(r"actions/cache/(restore|save)@v\d+", step["uses"])
            assert {"path", "key"} <= set(step["with"])


@pytest.mark.parametrize(("path", "schema"), [(ACTION, "github-actions"), (TEMPLATE, "gitlab-ci")])
def test_the_published_schemas_take_them(tmp_path, path, schema):
    """The schemas that the editors use, as check-jsonschema bundles them; and they can refuse."""
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    harness.run([*check, path])
    broken = tmp_path / path.name
    broken.write_text(re.sub(r"using: composite|when: always", "using: [nothing]\n    when: never so", path.read_text(), count=1))
    done = harness.run([*check, broken], check=False)
    assert done.returncode == 1, harness.described(done)


def test_each_output_is_written_by_its_step(action):
    steps = {step["id"]: step for step in action["runs"]["steps"] if "id" in step}
    for output in action["outputs"].values():
        step, name = re.fullmatch(r"\$\{\{ steps\.([\w-]+)\.outputs\.([\w-]+) \}\}", output["value"]).groups()
        assert f"{name}=%s" in steps[step]["run"]


def test_the_template_has_what_gitlab_asks_for(template):
    assert {"variables", ".gpumem", "gpumem", "gpumem-keep"} == set(template)
    for job in (template["gpumem"], template["gpumem-keep"]):
        assert {"extends", "rules", "cache", "artifacts", "script"} == set(job)
        assert job["extends"] == ".gpumem"
        for script in (*template[".gpumem"]["before_script"], *job["script"]):
            is_sound(script)
    text = TEMPLATE.read_text()
    used = set(re.findall(r"\$\{?(GPUMEM_\w+)", text))
    assert used == {*template["variables"], "GPUMEM_CAPTURES", "GPUMEM_TOKEN"}


FAKE = """\
#!{python}
import json, os, sys
body = [word.partition("@")[2] for word in sys.argv if word.startswith(("body=@", "body@"))]
said = sys.stdin.read() if "--config" in sys.argv else ""
with open({log!r}, "a") as log:
    log.write(json.dumps([sys.argv[1:], open(body[0]).read() if body else None, said]) + "\\n")
if not body:
    print(open({answer!r}).read())
sys.exit(int(os.environ.get("FAKE_STATUS", "0")) if body else 0)
"""


class World:
    """A repository with a base and a head, its clone as a pull request's job has it, and programs that note calls."""

    def __init__(self, folder):
        self.folder = folder
        origin = folder / "origin"
        origin.mkdir()
        git(origin, "init", "--quiet", "--initial-branch=main")
        git(origin, "config", "uploadpack.allowAnySHA1InWant", "true")
        self.base = commit(origin, PROGRAM, 1_790_000_000)
        self.head = commit(origin, PLANTED, 1_790_000_600)
        self.clone = folder / "clone"
        git(folder, "clone", "--quiet", "--depth=1", f"file://{origin}", "clone")
        self.programs = folder / "programs"
        self.programs.mkdir()
        self.log, self.answer = folder / "log", folder / "answer"
        fake = FAKE.format(python=sys.executable, log=str(self.log), answer=str(self.answer))
        gpumem = f'#!/bin/bash\nPYTHONPATH={harness.ROOT / "python"} exec {sys.executable} -m gpumem "$@"\n'
        for name, text in (("gh", fake), ("curl", fake), ("gpumem", gpumem)):
            program = self.programs / name
            program.write_text(text)
            program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def bash(self, script, **env):
        """Runs a script in the clone."""
        path = f"{self.programs}:{os.environ['PATH']}"
        settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "PATH": path}
        return harness.run(["bash", "-c", script], cwd=self.clone, env={**settings, **env}, check=False)

    def calls(self):
        """The requests to the programs since the last call."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def github(world, action, event, numbers, status="0"):
    """Runs the steps of the action that have scripts; each step's exit code by its name, up to one that fails."""
    temp = world.folder / "temp"
    temp.mkdir(exist_ok=True)
    outputs = {}
    files = {"GITHUB_OUTPUT": world.folder / "output", "GITHUB_STEP_SUMMARY": world.folder / "summary"}
    values = {
        "inputs.run": RUN, "inputs.fail-over": "2%", "inputs.token": "secret", "inputs.budgets": "", "inputs.install": "",
        "runner.temp": str(temp), "github.sha": world.head, "github.event_name": event, **numbers,
    }  # fmt: skip
    is_run = {
        "github.event_name == 'pull_request'": event == "pull_request", "github.event_name == 'push'": event == "push",
        "github.event_name == 'pull_request' && inputs.token != ''": event == "pull_request", "inputs.install != ''": False,
        None: True,
    }  # fmt: skip
    codes = {}
    for step in action["runs"]["steps"]:
        if "run" not in step or not is_run[step.get("if")]:
            continue
        value = lambda found: outputs.get(found[1]) or values.get(found[1], "")  # noqa: E731
        env = {name: EXPRESSION.sub(value, text) for name, text in step.get("env", {}).items()}
        paths = {name: str(path) for name, path in files.items()}
        done = world.bash(step["run"], **env, **paths, GITHUB_REPOSITORY="me/it", GITHUB_SHA=world.head, FAKE_STATUS=status)
        codes[step["name"]] = done.returncode
        if files["GITHUB_OUTPUT"].exists():
            for line in files["GITHUB_OUTPUT"].read_text().splitlines():
                name, _, said = line.partition("=")
                outputs[f"steps.{step.get('id')}.outputs.{name}"] = said
            files["GITHUB_OUTPUT"].unlink()
        if done.returncode:
            print(harness.described(done))
            break
    return codes


def test_the_action_on_a_pull_request(world, action):
    numbers = {"github.event.pull_request.base.sha": world.base, "github.event.pull_request.number": "7"}
    world.answer.write_text("")
    codes = github(world, action, "pull_request", numbers)
    assert codes == {"Record": 0, "Compare": 0, "Comment": 0, "Judge": 4}
    (looked, *_), (written, body, _) = world.calls()
    assert looked[:3] == ["api", "--paginate", "repos/me/it/issues/7/comments"]
    assert written[:5] == ["api", "--silent", "--method", "POST", "repos/me/it/issues/7/comments"]
    assert body.startswith("### GPU memory: +3.0 % (+3.00 MiB) in `train`, by `train.py:29`\n")
    assert (world.folder / "summary").read_text() == body
    assert git(world.clone, "worktree", "list").count("\n") == 0, "the base's checkout is gone"
    # Again: the earlier comment is replaced. A token without write access causes no failure.
    world.answer.write_text("41\n")
    assert github(world, action, "pull_request", numbers, status="1")["Comment"] == 0
    assert world.calls()[1][0][2:5] == ["--method", "PATCH", "repos/me/it/issues/comments/41"]


def test_the_action_on_a_push(world, action):
    codes = github(world, action, "push", {})
    assert codes == {"Record": 0, "Compare": 0, "Keep": 0, "Judge": 0}
    temp = world.folder / "temp" / "gpumem"
    assert [path.name for path in (temp / "base").iterdir()] == ["train.bin"]
    history = [path.name for path in (temp / "history").iterdir()]
    assert len(history) == 1 and history[0].startswith(world.head)
    assert "Peak GPU memory over 1 commit" in (temp / "trend.svg").read_text()


def gitlab(world, template, job, **env):
    """Runs a job's scripts in one shell, as GitLab's runner does."""
    script = "\n".join((*template[".gpumem"]["before_script"], *template[job]["script"]))
    variables = {**template["variables"], "GPUMEM_RUN": RUN, "CI_PROJECT_DIR": str(world.clone), "CI_COMMIT_SHA": world.head}
    return world.bash(script, **{**variables, **env})


def test_the_template_on_a_merge_request(world, template):
    request = {
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": world.base, "CI_API_V4_URL": "https://gitlab.example.org/api/v4", "CI_PROJECT_ID": "5",
        "CI_MERGE_REQUEST_IID": "7", "GPUMEM_TOKEN": "secret",
    }  # fmt: skip
    notes = "https://gitlab.example.org/api/v4/projects/5/merge_requests/7/notes"
    world.answer.write_text("[]")
    done = gitlab(world, template, "gpumem", **request)
    assert done.returncode == 4, harness.described(done)
    (looked, _, header), (written, body, _) = world.calls()
    assert looked[-1] == f"{notes}?per_page=100" and header == 'header = "PRIVATE-TOKEN: secret"\n'
    assert "secret" not in " ".join(looked + written)
    assert written[5:8] == ["--request", "POST", notes], written
    assert body.startswith("### GPU memory: +3.0 % (+3.00 MiB) in `train`, by `train.py:29`\n")
    world.answer.write_text(json.dumps([{"id": 3, "body": "no"}, {"id": 41, "body": f"x\n{body}"}]))
    done = gitlab(world, template, "gpumem", **request, FAKE_STATUS="1")
    assert done.returncode == 4 and "the comment could not be written" in done.stderr, harness.described(done)
    assert world.calls()[1][0][5:8] == ["--request", "PUT", f"{notes}/41"]
    done = gitlab(world, template, "gpumem", **{**request, "GPUMEM_FAIL_OVER": "4%", "GPUMEM_TOKEN": ""})
    assert done.returncode == 0 and world.calls() == [], harness.described(done)


def test_the_template_on_the_default_branch(world, template):
    done = gitlab(world, template, "gpumem-keep")
    assert done.returncode == 0, harness.described(done)
    kept = world.clone / ".gpumem"
    assert (kept / "base" / "train.bin").exists() and (kept / "trend.svg").exists()
    assert len(list((kept / "history").iterdir())) == 1
    done = gitlab(world, template, "gpumem-keep", GPUMEM_RUN="")
    assert done.returncode == 2 and "the variable GPUMEM_RUN" in done.stderr
