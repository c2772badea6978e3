"""A shop kept in memory: what the contract says each move leads to."""

from dataclasses import dataclass, field

Tracking = str
USES = 3
"""How many orders the one discount is good for."""


@dataclass(slots=True)
class Shelf:
    """One variant."""

    product: int
    price: int
    stock: int
    sells_short: bool
    gone: bool = False


@dataclass(slots=True)
class Line:
    shelf: int
    quantity: int
    fulfilled: int = 0
    restocked: int = 0

    @property
    def left(self) -> int:
        return self.quantity - self.fulfilled


@dataclass(slots=True)
class Paper:
    """One order."""

    lines: list[Line]
    subtotal: int
    discount: int
    by_scan: bool
    waits: bool
    confirmed: bool = False
    money: str = "PENDING"
    cancelled: tuple[bool, bool] | None = None
    shipments: list[tuple[Tracking, dict[int, int]]] = field(default_factory=list)

    @property
    def goods(self) -> str:
        if self.cancelled is not None and self.cancelled[0]:
            return "RESTOCKED"
        if not any(line.left for line in self.lines):
            return "FULFILLED"
        begun = any(line.fulfilled for line in self.lines)
        return "PARTIALLY_FULFILLED" if begun else "UNFULFILLED"

    @property
    def status(self) -> str:
        if self.cancelled is not None:
            return "CANCELLED"
        if self.goods == "FULFILLED" and self.money in {"PAID", "REFUNDED"}:
            return "COMPLETED"
        begun = self.goods != "UNFULFILLED"
        acted = self.confirmed or self.money == "PAID" or begun
        return "CONFIRMED" if acted else "PENDING"


@dataclass(slots=True)
class Books:
    """Every move answers the codes that may refuse it; none means it is done."""

    shelves: list[Shelf] = field(default_factory=list)
    orders: list[Paper] = field(default_factory=list)
    used: int = 0

    def of_product(self, product: int) -> list[Shelf]:
        return [one for one in self.shelves if one.product == product and not one.gone]

    def place(
        self, asked: list[tuple[int, int]], coded: bool, by_scan: bool, waits: bool
    ) -> set[str]:
        wanted: dict[int, int] = {}
        for shelf, quantity in asked:
            wanted[shelf] = wanted.get(shelf, 0) + quantity
        refusals = self._refusals(wanted, coded)
        if refusals:
            return refusals
        for shelf, quantity in wanted.items():
            self.shelves[shelf].stock -= quantity
        self.used += coded
        subtotal = sum(self.shelves[one].price * count for one, count in asked)
        tenth = (subtotal + 5) // 10 if coded else 0
        lines = [Line(shelf, quantity) for shelf, quantity in asked]
        self.orders.append(Paper(lines, subtotal, tenth, by_scan, waits))
        return set()

    def _refusals(self, wanted: dict[int, int], coded: bool) -> set[str]:
        found = set()
        if coded and self.used >= USES:
            found.add("DISCOUNT_USED_UP")
        for number, quantity in wanted.items():
            shelf = self.shelves[number]
            if shelf.gone:
                found.add("PRODUCT_UNAVAILABLE")
            elif not shelf.sells_short and shelf.stock < quantity:
                found.add("OUT_OF_STOCK")
        return found

    def fulfill(self, paper: Paper, tracking: Tracking, count: int) -> set[str]:
        """Ship so many of the first line, or with 0 all that is left."""
        if paper.waits and not paper.confirmed:
            return {"ORDER_AWAITING_CONFIRMATION"}
        if not any(line.left for line in paper.lines):
            return self._shipped_again(paper, tracking, count)
        if count > paper.lines[0].left:
            return {"QUANTITY_NOT_FULFILLABLE"}
        lefts = {n: line.left for n, line in enumerate(paper.lines) if line.left}
        parcel = {0: count} if count else lefts
        for number, quantity in parcel.items():
            paper.lines[number].fulfilled += quantity
        paper.shipments.append((tracking, parcel))
        return set()

    def _shipped_again(self, paper: Paper, tracking: Tracking, count: int) -> set[str]:
        same = any(
            tracking == sent and (not count or parcel == {0: count})
            for sent, parcel in paper.shipments
        )
        return set() if same else {"ORDER_ALREADY_FULFILLED"}

    def cancel(self, paper: Paper, restock: bool, refund: bool) -> set[str]:
        if paper.cancelled is not None:
            same = paper.cancelled == (restock, refund)
            return set() if same else {"ORDER_ALREADY_CANCELLED"}
        self.used -= bool(paper.discount)
        paper.cancelled = (restock, refund)
        if paper.money == "PENDING":
            paper.money = "VOIDED"
        elif paper.money == "PAID" and refund:
            paper.money = "REFUNDED"
        for line in paper.lines if restock else ():
            shelf = self.shelves[line.shelf]
            if not shelf.gone:
                shelf.stock += line.quantity
                line.restocked = line.quantity
        return set()

    def confirm(self, paper: Paper) -> set[str]:
        if not paper.confirmed and paper.cancelled is not None:
            return {"ORDER_CANCELLED"}
        paper.confirmed = True
        return set()

    def pay(self, paper: Paper) -> set[str]:
        if paper.money in {"PENDING", "PAID"}:
            paper.money = "PAID"
            return set()
        voided = paper.money == "VOIDED"
        return {"ORDER_CANCELLED" if voided else "PAYMENT_SETTLED"}

    def refund(self, paper: Paper) -> set[str]:
        if paper.money == "PAID":
            paper.money = "REFUNDED"
            return set()
        pending = paper.money == "PENDING"
        return {"ORDER_NOT_PAID" if pending else "PAYMENT_SETTLED"}

    def report(self, paper: Paper) -> set[str]:
        if not paper.by_scan:
            return {"PAYMENT_NOT_EXPECTED"}
        if paper.money == "VOIDED":
            return {"ORDER_CANCELLED"}
        return set() if paper.money == "PENDING" else {"ORDER_ALREADY_PAID"}

    def adjust(self, shelves: list[Shelf], change: int) -> set[str]:
        """All of them or none."""
        if any(one.stock + change < 0 and not one.sells_short for one in shelves):
            return {"INSUFFICIENT_STOCK"}
        for one in shelves:
            one.stock += change
        return set()
