"""`backhaul demo`: the daemon and a store to try it on, with a shop that works."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from backhaul.core.clock import SystemClock

KeepOption = Annotated[
    Path | None,
    typer.Option(
        "--keep",
        help="Empty or new folder for data, logs and configuration; else a temporary "
        "one, which stays only if something fails.",
        show_default=False,
    ),
]


def demo(
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Play through, print the ledger, exit 0 if it balances."
        ),
    ] = False,
    orders: Annotated[
        int, typer.Option(min=1, help="Orders to play, with --once.")
    ] = 200,
    keep: KeepOption = None,
    seed: Annotated[int, typer.Option(help="What the play's choices depend on.")] = 1,
) -> None:
    """Run the daemon against the reference server, with a simulated shop floor."""
    # The play and its screen load much that no other command needs.
    from backhaul.demo import playing
    from backhaul.demo.screen import Screen

    screen, clock = Screen(), SystemClock()
    if once:
        play = playing.run_once(screen, clock, orders=orders, keep=keep, seed=seed)
    else:
        play = playing.run_live(screen, clock, keep=keep, seed=seed)
    raise typer.Exit(asyncio.run(play))
