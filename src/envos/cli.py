"""The command line: one function per command, and what an error becomes.

Exit codes: 0 done; 1 checked and failed (not admitted, a verdict that moved); 2 bad input, with one line that says what
was expected; 3 an error of EnvOS itself (`--traceback` shows where); 130 stopped with Ctrl-C. A command's own module is
loaded when it runs, so that `envos --help` is fast.
"""

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from envos.errors import CertificateError, DatabaseError, EnvOSError

FAILED, BAD_INPUT, INTERNAL, STOPPED, UNREAD = 1, 2, 3, 130, 141
_TRACEBACK = "--traceback"


class Commands(TyperGroup):
    """The commands, with errors as one line on stderr and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and exit; without `standalone_mode`, return or raise as Typer does."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        given = list(sys.argv[1:] if args is None else args)
        rest = [word for word in given if word != _TRACEBACK]

        def call() -> None:
            with self.make_context(prog_name or "envos", rest, **extra) as context:
                self.invoke(context)

        sys.exit(guarded(call, _TRACEBACK in given))


def guarded(call: Callable[[], None], shown: bool = False) -> int:
    """The exit code of a call; an error is said in one line on stderr, with its traceback where `shown`."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal that cannot show a name shows its escape, and what is typed need not be UTF-8.
            stream.reconfigure(errors="backslashreplace")
    try:
        call()
        sys.stdout.flush()
    except typer.Exit as done:
        return done.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return _said("stopped", STOPPED)
    except BrokenPipeError:
        # The reader has gone (`envos list | head -1`): nothing is left to say, not even by the flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except Exception as error:  # noqa: BLE001 - whatever it is, a person gets one line
        if shown:
            traceback.print_exc()
        code, text = described(error)
        return _said(text, code)
    return 0


def described(error: Exception) -> tuple[int, str]:
    """The exit code of an error and the line that says it."""
    if hasattr(error, "format_message"):  # Typer's own: a bad or missing option, argument or command
        context = getattr(error, "ctx", None)
        where = f" (see '{context.command_path} --help')" if context else ""
        return BAD_INPUT, f"{error.format_message()}{where}"
    if isinstance(error, CertificateError):
        return FAILED, str(error)
    if isinstance(error, EnvOSError) and not isinstance(error, DatabaseError):
        return BAD_INPUT, str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return BAD_INPUT, f"{error.filename}: {error.strerror}"
    return INTERNAL, f"internal error: {type(error).__name__}: {error} ({_TRACEBACK} shows where)"


def _said(text: str, code: int) -> int:
    print(f"envos: {' '.join(text.split())}", file=sys.stderr)
    return code


app = typer.Typer(
    name="envos",
    cls=Commands,
    help="Environments of enterprise software that changes while an agent works in it.",
    epilog="Exit codes: 0 done, 1 checked and failed, 2 bad input, 3 internal error, 130 stopped.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Environment = Annotated[str, typer.Argument(metavar="ID", help="Environment id, as `envos list` shows it.")]
Seeds = Annotated[str, typer.Option(metavar="A:B", help="Seeds A to B-1; a single number is one seed.")]
Split = Annotated[str, typer.Option(metavar="SPLIT", help="train, validation or test.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, and nothing else.")]
Conditions = Annotated[list[str], typer.Option(metavar="CONDITION", help="A condition; repeatable; 'all' is each.")]
Workers = Annotated[int, typer.Option(metavar="N", help="Processes to use; 0 is one for each core.")]


def _version(wanted: bool) -> None:
    if wanted:
        from envos import __version__

        print(f"envos {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def envos(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")] = False,
    traceback: Annotated[
        bool, typer.Option(_TRACEBACK, help="With an error, show where; anywhere on the line.")
    ] = False,
) -> None:
    """Environments of enterprise software that changes while an agent works in it."""
    # Worker processes inherit it: with more than one thread, small arrays cost more in hand-over than in work.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if context.invoked_subcommand is None:
        print(context.get_help())


def _finish(code: int) -> None:
    if code:
        raise typer.Exit(code)


@app.command("list", short_help="The environments there are.")
def list_(as_json: Json = False) -> None:
    """List the environments: id, world, phenomenon, conditions, budget."""
    from envos.cli_show import show_all

    show_all(as_json)


@app.command(short_help="What an environment is, with an example page.")
def show(
    environment: Environment,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the example instance.")] = 0,
    split: Split = "train",
    tools: Annotated[
        bool, typer.Option("--tools", help="The schemas of its tools, as JSON, and nothing else.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Describe an environment: brief, conditions, invariants, actions, policies, an example page."""
    from envos.cli_show import show_one, show_tools

    if tools:
        show_tools(environment, as_json)
    else:
        show_one(environment, split, seed, as_json)


@app.command(short_help="Play scripted policies in paired arms.")
def run(
    environment: Environment,
    policy: Annotated[list[str], typer.Option(metavar="POLICY", help="A scripted policy; repeatable; 'all' is each.")],
    condition: Conditions = ["all"],  # noqa: B006 - Typer copies it
    seeds: Seeds = "0:10",
    split: Split = "train",
    anchor: Annotated[str, typer.Option(metavar="ANCHOR", help="Where the change fires: first or any.")] = "any",
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write an archive of every episode here.")] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Play only instances that this certificate admits.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Play scripted policies, each on the same seeds in every condition, and tell how they fared."""
    from envos.cli_run import Block, run_block

    run_block(Block.checked(environment, policy, condition, seeds, split, anchor), out, certificate, as_json)


@app.command(short_help="What a silent change costs a policy.")
def gap(
    environment: Environment,
    policy: Annotated[list[str], typer.Option(metavar="POLICY", help="A scripted policy; repeatable; 'all' is each.")],
    seeds: Seeds = "0:10",
    split: Split = "train",
    anchor: Annotated[str, typer.Option(metavar="ANCHOR", help="Where the change fires: first or any.")] = "any",
    as_json: Json = False,
) -> None:
    """Tell a policy's success without a change minus that with it, paired by seed, in each silent condition."""
    from envos.cli_gap import print_gaps

    print_gaps(environment, policy, seeds, split, anchor, as_json)


@app.command(short_help="Admit instances: change, task and grader.")
def certify(
    environment: Environment,
    seeds: Seeds = "0:10",
    split: Split = "train",
    condition: Conditions = ["all"],  # noqa: B006 - Typer copies it
    anchor: Annotated[list[str], typer.Option(metavar="ANCHOR", help="first or any; repeatable; 'all'.")] = ["all"],  # noqa: B006
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the certificate here.")] = None,
    workers: Workers = 0,
    as_json: Json = False,
) -> None:
    """Certify instances: does the change fire as it should, is the task winnable, does the grader tell?

    Exits 1 when an instance is not admitted.
    """
    from envos.cli_certify import certify_seeds

    _finish(certify_seeds(environment, split, seeds, condition, anchor, out, workers, as_json))


@app.command(short_help="Derive archived verdicts again.")
def verify(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of archives, or one archive.")],
    as_json: Json = False,
) -> None:
    """Derive every archive's verdict again from its files, and say what moved.

    Exits 1 when a verdict differs from the archived one, or when there is something wrong with the files.
    """
    from envos.cli_verify import verify_folder

    _finish(verify_folder(folder, as_json))


@app.command(short_help="Play an episode yourself.")
def play(
    environment: Environment,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the instance.")] = 0,
    condition: Annotated[str, typer.Option(metavar="CONDITION", help="A condition; 'mixed' draws one.")] = "mixed",
    split: Split = "train",
    anchor: Annotated[str, typer.Option(metavar="ANCHOR", help="Where the change fires: first or any.")] = "any",
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write an archive of the episode here.")] = None,
    as_json: Json = False,
) -> None:
    """Play an episode yourself, with what an agent sees and may do; the verdict comes at the end."""
    from envos.cli_play import play_episode

    play_episode(environment, split, seed, condition, anchor, out, as_json)


@app.command(short_help="The whole idea in one run.")
def demo(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Certificate and archives; an earlier demo's are replaced.")
    ] = Path("demo-out"),
    workers: Workers = 0,
    as_json: Json = False,
) -> None:
    """Certify, roll out the scripted policies in paired arms, verify the archives, print the tables."""
    from envos.cli_demo import run_demo

    _finish(run_demo(out, workers, as_json))


def main() -> None:
    """Run the command line of this process."""
    app()
