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

training = typer.Typer(
    name="train",
    help="Train agents on environments.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(training)

Environment = Annotated[str, typer.Argument(metavar="ID", help="Environment id, as `envos list` shows it.")]
Seeds = Annotated[str, typer.Option(metavar="A:B", help="Seeds A to B-1; a single number is one seed.")]
Split = Annotated[str, typer.Option(metavar="SPLIT", help="train, validation or test.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, and nothing else.")]
Conditions = Annotated[list[str], typer.Option(metavar="CONDITION", help="A condition; repeatable; 'all' is each.")]
Port = Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Port of the local page; 0 is any free one.")]
Address = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="A running Ray cluster; without, one is started on this machine.")
]
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
    ray: Annotated[bool, typer.Option("--ray", help="On a Ray cluster: --address, or one started here.")] = False,
    address: Address = "",
    report: Annotated[bool, typer.Option("--report", help="Also the checklist E01 to E42 with its results.")] = False,
    as_json: Json = False,
) -> None:
    """Certify instances: does the change fire as it should, is the task winnable, does the grader tell?

    Exits 1 when an instance is not admitted.
    """
    from envos.cli_certify import certify_seeds

    at = address if ray or address else None
    _finish(certify_seeds(environment, split, seeds, condition, anchor, out, workers, as_json, at, report))


@app.command(short_help="Policies over environments, conditions and seeds, on Ray.")
def sweep(
    out: Annotated[
        Path, typer.Argument(metavar="DIR", help="The sweep's folder; one that was stopped is gone on with.")
    ],
    env: Annotated[list[str], typer.Option(metavar="ID", help="An environment; repeatable; 'all' is each.")],
    policy: Annotated[list[str], typer.Option(metavar="POLICY", help="A scripted policy; repeatable; 'all' is each.")],
    condition: Conditions = ["all"],  # noqa: B006 - Typer copies it
    seeds: Seeds = "0:10",
    split: Split = "test",
    anchor: Annotated[str, typer.Option(metavar="ANCHOR", help="Where the change fires: first or any.")] = "any",
    address: Address = "",
    workers: Workers = 0,
    as_json: Json = False,
) -> None:
    """Play scripted policies over environments, conditions and seeds; ends with one table and one plot.

    What a worker that dies was doing is done again, and a sweep that was stopped goes on where it was.
    """
    from envos.cli_sweep import run_sweep

    run_sweep(out, env, condition, policy, seeds, split, anchor, address, workers, as_json)


@app.command(short_help="Derive archived verdicts again.")
def verify(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of archives, or one archive.")],
    audit: Annotated[bool, typer.Option("--audit", help="Ask both auditors as well: two keys.")] = False,
    as_json: Json = False,
) -> None:
    """Derive every archive's verdict again from its files, and say what moved.

    Exits 1 when a verdict differs from the archived one, or when there is something wrong with the files; with --audit,
    when verdict, archived verdict and the two auditors do not agree on every term.
    """
    from envos.cli_verify import audit_folder, verify_folder

    _finish((audit_folder if audit else verify_folder)(folder, as_json))


@app.command(short_help="Corrupted archives against every tool.")
def challenge(
    seed: Annotated[int, typer.Option(metavar="N", help="What the cases are drawn from.")] = 1,
    cases: Annotated[int, typer.Option(metavar="N", min=1, help="How many cases.")] = 2000,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Expectations, their seal, results and summary are written here.")
    ] = Path("challenge-out"),
    env: Annotated[list[str], typer.Option(metavar="ID", help="An environment; repeatable; 'all' is each.")] = ["all"],  # noqa: B006
    workers: Workers = 0,
    whole: Annotated[bool, typer.Option("--classes", help="Also the table by class.")] = False,
    mutants: Annotated[bool, typer.Option("--mutants", help="Mutate the grader's rules instead.")] = False,
    every: Annotated[int, typer.Option(metavar="N", min=1, help="With --mutants: each N-th only.")] = 1,
    as_json: Json = False,
) -> None:
    """Corrupt valid archives in every known way, raw and re-sealed, and tell which tool took which for clean.

    Exits 1 when the pipeline took a corrupted archive for clean, refused a valid one, or a mutant survived.
    """
    from envos.cli_challenge import challenge as run_challenge
    from envos.cli_challenge import mutate

    if mutants:
        _finish(mutate(every, workers, as_json))
    else:
        _finish(run_challenge(seed, cases, env, out, workers, whole, as_json))


@app.command(short_help="Play an episode yourself.")
def play(
    environment: Environment,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the instance.")] = 0,
    condition: Annotated[str, typer.Option(metavar="CONDITION", help="A condition; 'mixed' draws one.")] = "mixed",
    split: Split = "train",
    anchor: Annotated[str, typer.Option(metavar="ANCHOR", help="Where the change fires: first or any.")] = "any",
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write an archive of the episode here.")] = None,
    browser: Annotated[
        bool, typer.Option("--browser", help="In your own browser, at an address that is printed.")
    ] = False,
    port: Port = 0,
    as_json: Json = False,
) -> None:
    """Play an episode yourself, with what an agent sees and may do; the verdict comes at the end.

    In the terminal, or with --browser in a browser on this machine, on pages as a person uses them.
    """
    if browser:
        from envos.cli_browse import browse_episode

        browse_episode(environment, split, seed, condition, anchor, out, as_json, port)
    else:
        from envos.cli_play import play_episode

        play_episode(environment, split, seed, condition, anchor, out, as_json)


@app.command("view", short_help="Look at archived episodes in a browser.")
def view_(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of archives, or one archive.")],
    other: Annotated[Path | None, typer.Argument(metavar="OTHER", help="A second archive, side by side.")] = None,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write one self-contained file, and serve nothing.")
    ] = None,
    port: Port = 0,
) -> None:
    """Look at archived episodes: what was asked, shown and written, when it changed, and what the verdict rests on.

    Serves a page on this machine until Ctrl-C, at an address that is printed.
    """
    from envos.cli_view import view

    view(folder, other, export, port)


@app.command("export-sft", short_help="The reference's episodes as conversations.")
def export_sft_(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The JSONL file to write.")],
    env: Annotated[str, typer.Option(metavar="ID", help="Environment id, as `envos list` shows it.")],
    seeds: Seeds = "0:100",
    split: Split = "train",
    condition: Conditions = ["all"],  # noqa: B006 - Typer copies it
    anchor: Annotated[str, typer.Option(metavar="ANCHOR", help="Where the change fires: first or any.")] = "any",
    archives: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Take these archives; without, the reference is played.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write episodes of the scripted `reference` as chat-format JSONL, with tool calls, for a supervised warm start.

    Only archives that verify and earned 1.0 are taken, and none of a policy that goes back to its source by itself:
    that is what learning has to find. Exits 1 when none is left.
    """
    from envos.cli_trl import export_sft

    _finish(export_sft(out, env, seeds, split, condition, anchor, archives, as_json))


@app.command(short_help="A network that does what the reference does.")
def clone(
    out: Annotated[Path, typer.Argument(metavar="FILE", help="The network is written here.")],
    env: Annotated[list[str], typer.Option(metavar="ID", help="An environment; repeatable.")],
    episodes: Annotated[int, typer.Option(metavar="N", help="Episodes of the reference.")] = 600,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the network and of its demonstrations.")] = 0,
    as_json: Json = False,
) -> None:
    """Clone the scripted reference on arrays: competent where nothing changes, stale where something does."""
    from envos.cli_train import clone_reference

    clone_reference(env, out, episodes, seed, as_json)


@app.command(short_help="How often a network tries what re-reading takes.")
def probe(
    net: Annotated[Path, typer.Argument(metavar="FILE", help="A network that `envos clone` wrote.")],
    env: Annotated[str, typer.Option(metavar="ID", help="Environment id.")],
    condition: Annotated[str, typer.Option(metavar="CONDITION", help="A condition.")] = "OFF-A",
    seeds: Seeds = "0:200",
    as_json: Json = False,
) -> None:
    """Tell, before any training, how often a network's own tries go back to the source, and note the new value."""
    from envos.cli_train import probe_net

    probe_net(net, env, condition, seeds, as_json)


@training.command("rllib", short_help="PPO on arrays (RLlib).")
def train_rllib_(
    env: Annotated[list[str], typer.Option(metavar="ID", help="An environment; repeatable; 'all' is each.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Config, metrics, checkpoint, curve, evaluation go here.")],
    minutes: Annotated[float, typer.Option(metavar="M", help="Most minutes; a solved run ends before.")] = 10,
    condition: Conditions = ["all"],  # noqa: B006 - Typer copies it
    seed: Annotated[int, typer.Option(metavar="N", help="Of network, instances and tries.")] = 0,
    anchor: Annotated[str, typer.Option(metavar="ANCHOR", help="Where the change fires: first or any.")] = "any",
    reward: Annotated[str, typer.Option(metavar="KIND", help="binary, or fraction of the invariants.")] = "binary",
    uncounted: Annotated[
        str,
        typer.Option(metavar="HOW", help="Episodes that do not count: drop, zero, or idle (zero where nothing fired)."),
    ] = "drop",
    clone: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The network to begin from; without, a clone is made.")
    ] = None,
    curriculum: Annotated[bool, typer.Option("--curriculum", help="One condition more as it gets better.")] = False,
    runners: Annotated[int, typer.Option(metavar="N", help="Processes that play; 0: this one.")] = 0,
    audit: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the episodes that must pass both keys; 0: none.")
    ] = 0.0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the folder's checkpoint.")] = False,
    as_json: Json = False,
) -> None:
    """Train by PPO from a clone of the reference, on training instances; evaluate on test instances."""
    from envos.cli_train import train_rllib

    train_rllib(
        env,
        condition,
        out,
        minutes,
        seed,
        anchor,
        reward,
        uncounted,
        clone,
        curriculum,
        runners,
        audit,
        resume,
        as_json,
    )


@training.command("evaluate", short_help="A network on test instances.")
def train_evaluate_(
    net: Annotated[Path, typer.Argument(metavar="FILE", help="A network: clone.pt, net.pt.")],
    env: Annotated[list[str], typer.Option(metavar="ID", help="An environment; repeatable.")],
    out: Annotated[Path, typer.Option(metavar="FILE.json", help="The scores are written here, too.")],
    condition: Conditions = ["all"],  # noqa: B006 - Typer copies it
    episodes: Annotated[int, typer.Option(metavar="N", min=1, help="Test instances of each arm.")] = 500,
    as_json: Json = False,
) -> None:
    """Tell how a network fares, greedily, on test instances under each condition and both anchors."""
    from envos.cli_train import evaluate_net

    evaluate_net(net, env, condition, out, episodes, as_json)


@training.command("trl", short_help="GRPO on text, with a world's tools (TRL).")
def train_trl_(
    model: Annotated[str, typer.Option(metavar="PATH", help="A model's folder; or 'tiny', or 'smollm2'.")],
    env: Annotated[str, typer.Option(metavar="ID", help="Environment id, as `envos list` shows it.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Config, metrics, checkpoint and evaluation go here.")],
    steps: Annotated[int, typer.Option(metavar="N", help="Steps of GRPO.")] = 20,
    condition: Conditions = ["all"],  # noqa: B006 - Typer copies it
    anchor: Annotated[str, typer.Option(metavar="ANCHOR", help="Where the change fires: first or any.")] = "any",
    tool: Annotated[list[str], typer.Option(metavar="TOOL", help="Only these tools; repeatable; none: all.")] = [],  # noqa: B006
    observation_tokens: Annotated[int, typer.Option(metavar="N", help="Most tokens of a tool's result.")] = 1024,
    turn_tokens: Annotated[int, typer.Option(metavar="N", help="Most tokens of one turn of the model.")] = 128,
    completion_tokens: Annotated[int, typer.Option(metavar="N", help="Most tokens of an episode.")] = 6144,
    calls: Annotated[int, typer.Option(metavar="N", help="Most turns of an episode; 0: the budget.")] = 0,
    prompts: Annotated[int, typer.Option(metavar="N", help="Groups in a step.")] = 1,
    group: Annotated[int, typer.Option(metavar="N", help="Rollouts of one instance in a group.")] = 4,
    rate: Annotated[float, typer.Option(metavar="X", help="Learning rate of GRPO.")] = 1e-5,
    temperature: Annotated[float, typer.Option(metavar="X", help="Temperature of rollouts in training.")] = 1.0,
    lora: Annotated[int, typer.Option(metavar="R", help="Rank of LoRA; 0 trains all weights.")] = 0,
    train_seeds: Annotated[str, typer.Option(metavar="A:B", help="Seeds of GRPO, train split.")] = "0:200",
    sft_seeds: Annotated[str, typer.Option(metavar="A:B", help="Seeds of the warm start, train split.")] = "1000:1064",
    sft_condition: Conditions = ["L0"],  # noqa: B006
    sft_steps: Annotated[int, typer.Option(metavar="N", help="Steps of the warm start; 0: none.")] = 50,
    sft_batch: Annotated[int, typer.Option(metavar="N", help="Episodes in a step of the warm start.")] = 2,
    sft_rate: Annotated[float, typer.Option(metavar="X", help="Learning rate of the warm start.")] = 1e-4,
    sft_tokens: Annotated[int, typer.Option(metavar="N", help="First tokens of an episode that are learned.")] = 8192,
    test_seeds: Annotated[str, typer.Option(metavar="A:B", help="Seeds of the evaluation, test split.")] = "0:10",
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of weights, order and sampling.")] = 0,
    archives: Annotated[bool, typer.Option("--archives", help="Archive every rollout under DIR/archives.")] = False,
    as_json: Json = False,
) -> None:
    """Train a language model: a warm start on the reference's episodes, then GRPO through the world's tools.

    The verdict is the only reward, and an episode that does not count has none. Needs the extra `trl`.
    """
    from envos.cli_trl import train_trl

    train_trl(
        out,
        as_json,
        {"train_seeds": train_seeds, "sft_seeds": sft_seeds, "test_seeds": test_seeds},
        environment=env,
        model=model,
        steps=steps,
        conditions=condition,
        anchor=anchor,
        tools=tuple(tool),
        observation_tokens=observation_tokens,
        turn_tokens=turn_tokens,
        completion_tokens=completion_tokens,
        calls=calls,
        prompts=prompts,
        group=group,
        rate=rate,
        temperature=temperature,
        lora=lora,
        sft_conditions=sft_condition,
        sft_steps=sft_steps,
        sft_batch=sft_batch,
        sft_rate=sft_rate,
        sft_tokens=sft_tokens,
        seed=seed,
        archives=archives,
    )


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
