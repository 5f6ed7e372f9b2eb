"""What an error becomes: one line, an exit code, no traceback."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from envos import cli
from envos.errors import CertificateError, DatabaseError, EvidenceError, RoleError, UnknownName, UsageError

ENVIRONMENT = "EnvOS/ClinicStale-v0"
RUN = ("run", ENVIRONMENT, "--policy", "reference")
Process = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("rnu",), "Did you mean 'run'"),
        (("run",), "Missing argument 'ID'"),
        (("run", ENVIRONMENT), "Missing option '--policy'"),
        (("show", ENVIRONMENT, "--sed", "3"), "--seed"),
        (("list", "more"), "unexpected extra argument"),
        (("show", "EnvOS/ClinicStale-v9"), "did you mean 'EnvOS/ClinicStale-v0'"),
        (("show", "ClinicStale-v0"), "did you mean 'EnvOS/ClinicStale-v0'"),
        (("show", ENVIRONMENT, "--seed", "-1"), "a seed is a whole number"),
        (("show", ENVIRONMENT, "--seed", "x"), "--seed"),
        (("show", ENVIRONMENT, "--split", "tset"), "did you mean 'test'"),
        (("run", ENVIRONMENT, "--policy", "referense"), "did you mean 'reference'"),
        ((*RUN, "--condition", "off-a"), "did you mean 'OFF-A'"),
        ((*RUN, "--condition", "mixed"), "unknown condition"),
        ((*RUN, "--anchor", "frist"), "did you mean 'first'"),
        ((*RUN, "--seeds", "5:1"), "holds no seed"),
        ((*RUN, "--seeds", "a:b"), "--seeds is A:B"),
        ((*RUN, "--seeds", "-3:5"), "--seeds is A:B"),
        ((*RUN, "--certificate", "nowhere.json"), "nowhere.json"),
        (("certify", ENVIRONMENT, "--seeds", "9:9"), "holds no seed"),
        (("certify", ENVIRONMENT, "--workers", "-2"), "--workers"),
        (("certify", ENVIRONMENT, "--anchor", "both"), "unknown anchor"),
        (("verify", "nowhere"), "no archive in nowhere"),
        (("play", ENVIRONMENT, "--condition", "OFFA"), "did you mean 'OFF-A'"),
        (("demo", "--workers", "many"), "--workers"),
    ],
)
def test_bad_input_is_one_line(bad: Callable[..., str], arguments: tuple[str, ...], expected: str) -> None:
    assert expected in bad(*arguments)


def test_an_out_folder_that_is_a_file(bad: Callable[..., str], tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for arguments in ((*RUN, "--out", file), ("play", ENVIRONMENT, "--out", file), ("demo", "--out", file)):
        assert "is a file" in bad(*arguments)


def test_an_out_file_that_is_a_folder(bad: Callable[..., str], tmp_path: Path) -> None:
    assert "is a folder" in bad("certify", ENVIRONMENT, "--out", tmp_path)


def test_a_demo_keeps_what_is_not_its_own(bad: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("kept", encoding="ascii")
    assert "not an earlier demo" in bad("demo", "--out", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_folder_without_archives(bad: Callable[..., str], tmp_path: Path) -> None:
    assert "no archive" in bad("verify", tmp_path)


def test_a_name_that_is_too_long_for_the_system(bad: Callable[..., str]) -> None:
    bad("verify", "x" * 5000)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("wrong"), 2),
        (UnknownName("split", "tset", ("test",)), 2),
        (RoleError("missing"), 2),
        (EvidenceError("unreadable"), 2),
        (CertificateError("not admitted"), 1),
        (DatabaseError("closed"), 3),
        (FileNotFoundError(2, "No such file or directory", "x"), 2),
        (OSError(28, "No space left on device"), 3),
        (KeyError("x"), 3),
        (ValueError("x"), 3),
    ],
)
def test_exit_codes(error: Exception, code: int) -> None:
    found, text = cli.described(error)
    assert found == code
    assert text


def failing(error: BaseException) -> Callable[[], None]:
    """Return a function that raises."""

    def call() -> None:
        raise error

    return call


def test_an_internal_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.guarded(failing(KeyError("a\nb"))) == 3
    assert capsys.readouterr().err == "envos: internal error: KeyError: 'a\\nb' (--traceback shows where)\n"


def test_the_traceback_is_there_for_the_asking(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.guarded(failing(KeyError("x")), shown=True) == 3
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_traceback_may_stand_anywhere(envos: Callable[..., Result]) -> None:
    for arguments in (("--traceback", "show", "x"), ("show", "x", "--traceback")):
        done = envos(*arguments)
        assert done.exit_code == 2
        assert "Traceback" in done.stderr


def test_ctrl_c_is_one_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.guarded(failing(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "envos: stopped\n"


def test_help_and_version_are_quick_and_load_nothing_heavy() -> None:
    script = "import sys\nfrom envos.cli import app\ntry:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
    script += (
        "print(*(name for name in ('sqlalchemy', 'rich', 'envos.envs.env') if name in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "certify" in done.stdout
    assert done.stderr.strip() == ""


def test_no_command_shows_the_help(envos: Callable[..., Result]) -> None:
    done = envos()
    assert done.exit_code == 0
    assert "Commands:" in done.stdout


@pytest.mark.parametrize("command", ["list", "show", "run", "certify", "verify", "play", "demo"])
def test_help_fits_80_columns(envos: Callable[..., Result], command: str) -> None:
    done = envos(command, "--help")
    assert done.exit_code == 0
    assert "--json" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_installed_command(process: Process) -> None:
    done = process("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, "envos 0.1.0\n", "")
    done = process("show", "nothing")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("envos: unknown environment 'nothing'")


def test_python_m_envos() -> None:
    done = subprocess.run([sys.executable, "-m", "envos", "list"], capture_output=True, text=True, check=True)
    assert ENVIRONMENT in done.stdout


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{Path(sys.executable).with_name('envos')} show {ENVIRONMENT} | head -1"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"{ENVIRONMENT}\n", "")
