# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The exchange of heads for rows along a line of the grid (tilewright.head_plan), in pieces: while one is computed, another one is
exchanged. A message has all heads and tensors of a span of rows; it arrives where kernels read it."""

from tilewright.exchange import Exchange, post_beside


class Matrix:
    """Rows [rows, batch, width] of fields, each of which is a tensor [batch, heads, rows, width of a head] for kernels."""

    def __init__(self, like, rows, batch, fields, kind=None):
        self.fields, self.pieces, self.width = fields
        self.batch, self.rows = batch, rows
        self.data = like.new_empty((rows, batch, self.width), dtype=kind)

    def heads(self, field, rows=None):
        """The heads of a field, of a range of rows, or of all."""
        begin, end = (0, self.rows) if rows is None else rows
        count, stride = field.heads[1] - field.heads[0], self.batch * self.width
        return self.data.as_strided((self.batch, count, end - begin, field.width), (self.width, field.width, stride, 1),
                                    begin * stride + field.begin)

    def of_fields(self):
        return [self.heads(field) for field in self.fields]


class HeadExchange:
    def __init__(self, layout):
        self.layout, self.plan, self.group = layout, layout.exchange, layout.group

    def collect(self, exchange, pieces, tensors):
        """Sends the own rows of other ranks' heads, and returns {(piece, number of the tensor): all rows of the own heads}, which are
        complete when the messages have arrived and `exchange.copy` has run. `tensors` are (x [batch, heads, rows, width], whether
        they are of "queries" or "keys")."""
        result, plan = {}, self.plan
        for group in self._together(tensors):
            kinds = tuple((tensors[number][1], tensors[number][0].shape[3]) for number in group)
            of, some = tensors[group[0]][1], tensors[group[0]][0]
            own = Matrix(some, plan.line_rows[of], some.shape[0], plan.fields(plan.column, pieces, kinds))
            result |= {(piece, group[number]): own.heads(field) for (piece, number), field in own.pieces.items()}
            for member in plan.members[of]:
                if member.column == plan.column:
                    for field in own.fields:
                        x = tensors[group[field.tensor]][0][:, field.heads[0]:field.heads[1]]
                        exchange.copies += [(own.heads(field, (at, at + end - begin)), x[:, :, begin:end])
                                            for begin, end, at in member.spans]
                    continue
                sent = Matrix(some, plan.rows[of], some.shape[0], plan.fields(member.column, pieces, kinds))
                exchange.copy_now([(sent.heads(field), tensors[group[field.tensor]][0][:, field.heads[0]:field.heads[1]])
                                   for field in sent.fields])
                # Spans one by one, so that each arrives in its place.
                for begin, end, _ in self._own_spans(of):
                    exchange.send(sent.data[begin:end], member.rank)
                for begin, end, at in member.spans:
                    exchange.receive(own.data[at:at + end - begin], member.rank)
        return result

    def _together(self, tensors):
        """The numbers of tensors that travel in the same messages: those of the same rows and type."""
        groups = {}
        for number, (x, of) in enumerate(tensors):
            groups.setdefault((x.dtype, "queries" if self.plan.is_self else of), []).append(number)
        return groups.values()

    def _own_spans(self, of):
        return self.plan.members[of][self.plan.column].spans

    def results(self, like, piece, kinds, kind=None):
        """A matrix for the results of a piece, of all rows: `kinds` are (whether of "queries" or "keys", width of a head)."""
        return Matrix(like, self.plan.line_rows[kinds[0][0]], like.shape[0], self.plan.fields(self.plan.column, (piece,), kinds, True),
                      kind)

    def spread(self, exchange, piece, matrix, kinds, totals):
        """The reverse of `collect`: sends other ranks' rows of results, and receives the own rows of theirs into `totals`, tensors
        of all heads, once the exchange is complete."""
        plan, of = self.plan, kinds[0][0]
        for member in plan.members[of]:
            if member.column == plan.column:
                for field in matrix.fields:
                    total = totals[field.tensor][:, field.heads[0]:field.heads[1]]
                    exchange.copies += [(total[:, :, begin:end], matrix.heads(field, (at, at + end - begin)))
                                        for begin, end, at in member.spans]
                continue
            for begin, end, at in member.spans:
                exchange.send(matrix.data[at:at + end - begin], member.rank)
            stage = Matrix(matrix.data, plan.rows[of], matrix.batch, plan.fields(member.column, (piece,), kinds, True))
            for begin, end, _ in self._own_spans(of):
                exchange.receive(stage.data[begin:end], member.rank)
            exchange.arrived += [(totals[field.tensor][:, field.heads[0]:field.heads[1]], stage.heads(field)) for field in stage.fields]

    def add_up(self, exchange, piece, matrix, kinds, totals):
        """Like `spread` where ranks share key heads, of columns whose next piece has other keys: returns (total, term) of all ranks,
        in their order, to be added once the messages have arrived. `matrix` is None if the own piece has no such keys."""
        plan, of, terms = self.plan, "keys", []
        some = totals[0]
        for member in plan.members[of]:
            is_own = member.column == plan.column
            if matrix is not None:
                for begin, end, at in member.spans:
                    if is_own:
                        terms += [(totals[field.tensor][:, field.heads[0]:field.heads[1], begin:end],
                                   matrix.heads(field, (at, at + end - begin))) for field in matrix.fields]
                    else:
                        exchange.send(matrix.data[at:at + end - begin], member.rank)
            if not is_own and plan.is_last[member.column][piece]:
                stage = Matrix(some, plan.rows[of], some.shape[0], plan.fields(member.column, (piece,), kinds, True))
                for begin, end, _ in self._own_spans(of):
                    exchange.receive(stage.data[begin:end], member.rank)
                terms += [(totals[field.tensor][:, field.heads[0]:field.heads[1]], stage.heads(field)) for field in stage.fields]
        return terms

    def post(self, exchange, piece, like):
        """Posts results of a piece, beside the computation of the next one."""
        if piece == self.plan.count - 1:
            return exchange.post()
        others = [member.rank for member in self.plan.members["queries"] if member.column != self.plan.column]
        return post_beside(exchange, others, like, self.layout.gates)

    def posted(self, tensors):
        """Collects tensors in two exchanges: the first piece alone, and the others together. Returns the results, and a function that
        waits for those of a piece. The second exchange is started before the first one has ended, and while rows are copied: once a
        kernel has all multiprocessors, an exchange waits for its end."""
        inputs, exchanges = {}, []
        for pieces in ((0,), tuple(range(1, self.plan.count))):
            exchange = Exchange(self.group, "exchange heads")
            if pieces:
                inputs |= self.collect(exchange, pieces, tensors)
            exchanges.append(exchange.post())
        exchanges[0].copy()

        def wait_for(piece):
            if piece < 2:
                exchanges[piece].wait()
            if piece == 0:
                exchanges[1].copy()

        return inputs, wait_for
