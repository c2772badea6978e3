"""The two documents of the shop: the page, and that there is no such shop."""

from html import escape

from backhaul_reference.shop_page.assets import Assets
from backhaul_reference.state.stores import Store

SCRIPT = '<script type="module" src="{root}/main.js"></script>'
WITHOUT_SCRIPT = """<noscript>
<h1>{name}</h1>
<p>This shop needs JavaScript. Please turn it on and load the page again.</p>
</noscript>"""
NO_SHOP = """<section class="quiet">
<img class="emblem" src="{root}/icon.svg" alt="">
<h1>There is no shop here</h1>
<p>The address may hold a slip of the pen, or the shop may have closed.</p>
<p>Please look at the link that brought you here once more.</p>
</section>"""


def shop(assets: Assets, store: Store) -> str:
    """The shell that the scripts fill; a merchant's words are escaped."""
    name = escape(store.name)
    return assets.template.substitute(
        root=assets.root,
        title=name,
        subdomain=escape(store.subdomain),
        main=WITHOUT_SCRIPT.format(name=name),
        script=SCRIPT.format(root=assets.root),
    )


def no_shop(assets: Assets) -> str:
    return assets.template.substitute(
        root=assets.root,
        title="No shop here",
        subdomain="",
        main=NO_SHOP.format(root=assets.root),
        script="",
    )
