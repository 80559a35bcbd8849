# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Messages between the processes of a group, on torch.distributed: sends and receives of one step of an algorithm, posted
together, so that they run while kernels compute."""

import contextlib

import torch
import torch.distributed as dist

# Rows of a head of this many bytes are a message of their own, which is written to its place; smaller ones are copied to and
# from one message for all heads, since each message takes the processor some 20 us.
DIRECT_BYTES = 8 << 20

GATED = ("cuda",)  # devices whose kernels take what an exchange needs to run: see post_beside


class Group:
    """The processes that share the rows, by their ranks in a group."""

    def __init__(self, group=None):
        if not dist.is_available() or not dist.is_initialized():
            raise ValueError("context_parallel needs an initialized process group; call torch.distributed.init_process_group")
        self.group = dist.group.WORLD if group is None else group
        self.rank, self.size = dist.get_rank(self.group), dist.get_world_size(self.group)
        if self.rank < 0:
            raise ValueError("context_parallel must get a group that this process belongs to")

    def global_rank(self, rank):
        return dist.get_global_rank(self.group, rank)

    @contextlib.contextmanager
    def errors(self, what):
        """Says what the process was doing when another one was lost."""
        try:
            yield
        except RuntimeError as error:
            text = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise RuntimeError(f"context_parallel: rank {self.rank} of {self.size} could not {what}: another rank raised an error, "
                               f"ended, or did not answer within the time-out of the group ({text})") from error

    def gather(self, numbers, device):
        """The lists of integers of all ranks."""
        own = torch.tensor(numbers, dtype=torch.int64, device=device)
        every = [torch.empty_like(own) for _ in range(self.size)]
        with self.errors("compare the shapes of a call"):
            dist.all_gather(every, own, group=self.group)
            return [x.tolist() for x in every]

    def broadcast(self, x):
        """The tensor of rank 0."""
        with self.errors("receive the seed of dropout"):
            dist.broadcast(x, self.global_rank(0), group=self.group)
        return x


class Exchange:
    """Messages that are posted together. Between two ranks, they arrive in the order in which both name them."""

    def __init__(self, group, what):
        self.group, self.what = group, what
        self.ops, self.works, self.received, self.kept = [], [], [], []
        self.copies = []  # (to, from), of what stays on this rank

    def _add(self, op, x, peer):
        if x.numel():
            self.ops.append(dist.P2POp(op, x, self.group.global_rank(peer), self.group.group))

    def send(self, x, peer):
        """Sends a tensor, which must not change before `wait`."""
        x = x.contiguous()
        self.kept.append(x)
        self._add(dist.isend, x, peer)

    def receive(self, x, peer):
        """Receives into a contiguous tensor."""
        self._add(dist.irecv, x, peer)

    def send_rows(self, x, peer):
        """Sends rows [batch, heads, rows, width] of some heads."""
        if _is_direct(x):
            x = x if x.stride(2) == x.shape[3] and x.stride(3) == 1 else x.contiguous()
            self.kept.append(x)
            for head in x.flatten(0, 1) if x.is_contiguous() else (head for element in x for head in element):
                self._add(dist.isend, head, peer)
        else:
            self.send(x, peer)

    def receive_rows(self, x, peer):
        """Receives what the other rank sends by send_rows, into a view of any strides."""
        if _is_direct(x) and x.stride(2) == x.shape[3] and x.stride(3) == 1:
            for element in x:
                for head in element:
                    self.receive(head, peer)
            return
        stage = x.new_empty(x.shape)
        self.received.append((x, stage))
        for each in stage.flatten(0, 1) if _is_direct(x) else [stage]:
            self.receive(each, peer)

    def post(self):
        """Starts the messages: after what the current stream has, and beside what it gets."""
        if self.ops:
            with self.group.errors(self.what):
                self.works = dist.batch_isend_irecv(self.ops)
        return self

    def copy(self):
        for x, own in self.copies:
            x.copy_(own)
        self.copies = []

    def wait(self):
        """Makes the current stream, or on the CPU the process, wait until the messages have arrived."""
        with self.group.errors(self.what):
            for work in self.works:
                work.wait()
        for x, stage in self.received:
            x.copy_(stage)
        self.ops, self.works, self.received, self.kept = [], [], [], []


def post_beside(exchange, peers, like):
    """Posts messages that are to run beside the next kernels of the current stream. Kernels that take all multiprocessors would
    delay them, and, where they began on one side alone, the wait for the other side would hold multiprocessors. So small messages
    go first, for which the stream waits: both sides then come here, and the others follow at once."""
    if like.device.type in GATED:  # on all ranks alike
        gate = Exchange(exchange.group, exchange.what)
        for peer in peers:
            gate.send(like.new_zeros(1), peer)
            gate.receive(like.new_empty(1), peer)
        gate.post()
        exchange.post()
        gate.wait()
    else:
        exchange.post()
    return exchange


def _is_direct(x):
    return x.shape[2] * x.shape[3] * x.element_size() >= DIRECT_BYTES
