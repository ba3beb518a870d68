"""Which values of a traced graph share memory, and the graph without collectives that write in place.

The tracer's example values tell: what shares memory shares their storage. A collective that writes into a buffer becomes the
functional one, and what reads the buffer afterwards, under any name, reads the result instead. Other views of its memory that are
read after the collective cannot follow, and are refused.
"""

import operator

import torch


def _schema(node):
    return node.target._schema if isinstance(node.target, torch._ops.OpOverload) else None


def _arguments(node):
    """Name and value of the arguments of an operator, with what the schema says of them."""
    arguments = _schema(node).arguments if _schema(node) else []
    for at, argument in enumerate(arguments):
        if at < len(node.args):
            yield argument, node.args[at]
        elif argument.name in node.kwargs:
            yield argument, node.kwargs[argument.name]


def _nodes_of(value):
    values = value if isinstance(value, (list, tuple)) else [value]
    return [each for each in values if isinstance(each, torch.fx.Node)]


def written_by(node):
    """The values that an operator writes in place, in order."""
    return [
        each
        for argument, value in _arguments(node)
        if argument.alias_info is not None and argument.alias_info.is_write
        for each in _nodes_of(value)
    ]


class Memory:
    """The storage of each value of a graph, by number. A wait and an in-place collective return what they are given."""

    def __init__(self, graph, returns_what_it_is_given):
        self._root, self.view = {}, {}
        for node in graph.nodes:
            values = node.meta.get("val")
            if isinstance(values, torch.Tensor):
                self.view[node] = _view(values)
            if node.op != "call_function":
                continue
            for given, result in returns_what_it_is_given(node):
                ours = self._find(given.meta["val"].untyped_storage()._cdata)
                self._root[self._find(result.untyped_storage()._cdata)] = ours
                if isinstance(values, torch.Tensor):
                    self.view[node] = self.view[given]

    def _find(self, storage):
        while self._root.get(storage, storage) != storage:
            storage = self._root[storage]
        return storage

    def of(self, node):
        """None for lists and numbers."""
        value = node.meta.get("val")
        return self._find(value.untyped_storage()._cdata) if isinstance(value, torch.Tensor) else None

    def written(self, graph):
        """The storages that any node writes in place."""
        return {self.of(each) for node in graph.nodes for each in written_by(node)}


def _view(tensor):
    """Which elements of its storage a tensor has, and how they are read; sizes may be symbols."""
    return str((list(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.dtype))


class WithoutWrites:
    """Replaces the collectives of an FX graph that write in place, in the order of execution.

    `functional_form(node)`: (operator, arguments, keywords) of the form that does not write, None where there is none;
    `refuse(node, words)` raises.
    """

    def __init__(self, graph, memory, is_wait, functional_form, refuse):
        self.graph, self.memory = graph, memory
        self.is_wait, self.functional_form, self.refuse = is_wait, functional_form, refuse
        self.seen = []
        self.older = {}  # storage -> its values before the last collective that writes it, or wait for one
        self.newest = {}  # storage -> (view, value) after that

    def rewrite(self):
        written = self.memory.written(self.graph)
        for node in list(self.graph.nodes):
            self.read_newest(node)
            form = self.functional_form(node) if node.op == "call_function" else None
            if form is not None:
                self.replace(node, form)
                continue
            self.seen.append(node)
            if self.is_wait(node) and self.memory.of(node) in written:
                self.changed(node.args[0], node)

    def read_newest(self, node):
        for each in list(node.all_input_nodes):
            storage = self.memory.of(each)
            if each not in self.older.get(storage, ()):
                continue
            view, now = self.newest[storage]
            if view != self.memory.view[each]:
                self.refuse(
                    node, f"reads '{each.name}', of whose memory a collective has changed another part since"
                )
            node.replace_input_with(each, now)

    def changed(self, buffer, value):
        """`value` is what `buffer` holds from here on."""
        storage = self.memory.of(buffer)
        self.older[storage] = {each for each in self.seen if self.memory.of(each) == storage} - {value}
        self.newest[storage] = (self.memory.view[buffer], value)

    def replace(self, node, form):
        buffers = written_by(node)
        if len({self.memory.of(each) for each in buffers}) != len(buffers):
            self.refuse(node, "writes into two buffers that share memory")
        for each in buffers:
            sharers = (other for other in self.seen if self.memory.of(other) == self.memory.of(each))
            if any(other.op != "call_function" for other in sharers):
                self.refuse(node, f"writes into '{each.name}', an input or weight of the model")
        with self.graph.inserting_before(node):
            result = self.graph.call_function(*form)
            result.meta = dict(node.meta)
            results = [result]
            if isinstance(node.meta["val"], (list, tuple)):
                parts = range(len(buffers))
                results = [self.graph.call_function(operator.getitem, (result, k)) for k in parts]
        for each, buffer in zip(results, buffers):
            each.meta["val"] = buffer.meta["val"]
            self.memory.view[each] = self.memory.view[buffer]
            self.seen.append(each)
            self.changed(buffer, each)
        node.replace_all_uses_with(result)
        self.graph.erase_node(node)
