"""The order in which nodes run, and who still needs what: every step linear in the number of names."""

from collections import Counter, deque
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from onnx import GraphProto, NodeProto

from onnxdyno.graphs.tracing import subgraphs


def references(node: NodeProto) -> set[str]:
    """Names a node reads: its inputs, and what its subgraphs may take from outside."""
    names = {name for name in node.input if name}
    pending = deque(subgraphs(node))
    while pending:
        graph = pending.popleft()
        names.update(output.name for output in graph.output)
        for inner in graph.node:
            names.update(name for name in inner.input if name)
            pending.extend(subgraphs(inner))
    return names


class Order:
    """Nodes of one graph in an order that can run: the file's where it is one, else the nearest.

    `places` are indices into the graph's nodes; `stuck` are those that wait for themselves. `needs` are the names
    each node reads, `uses` how many nodes read a name; `holders` have graphs inside.
    """

    def __init__(self, graph: GraphProto) -> None:
        self.holders = frozenset(place for place, node in enumerate(graph.node) if subgraphs(node))
        self.needs = [
            references(node) if place in self.holders else {name for name in node.input if name}
            for place, node in enumerate(graph.node)
        ]
        self.uses = Counter(name for names in self.needs for name in names)
        producers = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
        self.places = _sorted(self.needs, producers)
        self.stuck = sorted(set(range(len(self.needs))).difference(self.places))


def _sorted(needs: Sequence[set[str]], producers: dict[str, int]) -> list[int]:
    waiting_for = [{producers[name] for name in names if name in producers} for names in needs]
    if all(place > max(before, default=-1) for place, before in enumerate(waiting_for)):
        return list(range(len(needs)))
    followers: list[list[int]] = [[] for _ in needs]
    for place, before in enumerate(waiting_for):
        for earlier in before:
            followers[earlier].append(place)
    missing = [len(before) for before in waiting_for]
    ready = [place for place, count in enumerate(missing) if not count]
    heapify(ready)
    order = []
    while ready:
        place = heappop(ready)
        order.append(place)
        for later in followers[place]:
            missing[later] -= 1
            if not missing[later]:
                heappush(ready, later)
    return order
