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
    with_tryton: Annotated[
        bool,
        typer.Option(
            "--with-tryton",
            help="A Tryton server works beside the rest; trytond-sale and proteus must "
            "be installed.",
        ),
    ] = False,
) -> None:
    """Run the daemon against the reference server, with a simulated shop floor."""
    # The play and its screen load much that no other command needs.
    from backhaul.demo import playing
    from backhaul.demo.screen import Screen
    from backhaul.demo.tryton_server import keep_database

    screen, clock = Screen(), SystemClock()
    tryton = keep_database(screen.say) if with_tryton else None
    if once:
        play = playing.run_once(
            screen, clock, orders=orders, keep=keep, seed=seed, tryton=tryton
        )
    else:
        play = playing.run_live(screen, clock, keep=keep, seed=seed, tryton=tryton)
    raise typer.Exit(asyncio.run(play))
