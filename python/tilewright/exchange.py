# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Messages between the processes of a group, on torch.distributed: sends and receives of one step of an algorithm, posted
together, so that they run while kernels compute."""

import contextlib
import itertools

import torch
import torch.distributed as dist

GATED = ("cuda",)  # devices whose kernels take what an exchange needs to run: see post_beside
SMALL_KERNELS = 4  # see let_begin


class Group:
    """The processes that share the rows, by their ranks in a group."""

    def __init__(self, group=None):
        if not dist.is_available() or not dist.is_initialized():
            raise ValueError("context_parallel needs an initialized process group; call torch.distributed.init_process_group")
        self.group = dist.group.WORLD if group is None else group
        self.rank, self.size = dist.get_rank(self.group), dist.get_world_size(self.group)
        if self.rank < 0:
            raise ValueError("context_parallel must get a group that this process belongs to")
        self.global_ranks = tuple(dist.get_global_rank(self.group, rank) for rank in range(self.size))

    @contextlib.contextmanager
    def errors(self, what):
        """Says what the process was doing when another one was lost."""
        try:
            yield
        except RuntimeError as error:
            raise self.lost(what, error) from error

    def lost(self, what, error):
        text = (str(error).strip() or type(error).__name__).splitlines()[0]
        return RuntimeError(f"context_parallel: rank {self.rank} of {self.size} could not {what}, but got no answer of another rank "
                            f"within the time-out of the group: it raised an error, ended, or is late ({text})")

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
            dist.broadcast(x, self.global_ranks[0], group=self.group)
        return x


def _is_of_wide(x):
    """Whether the rows of a tensor consist of aligned elements of 16 bytes."""
    step = 16 // x.element_size()
    return (x.dim() > 0 and x.shape[-1] % step == 0 and x.stride(-1) == 1 and not any(stride % step for stride in x.stride()[:-1])
            and x.storage_offset() % step == 0 and x.data_ptr() % 16 == 0)


def _wide(to, x):
    """Tensors of one type, of which one is copied to the other, as elements of 16 bytes, if both have such: PyTorch copies tensors
    with strides element by element, on an H200 at 1.7 TB/s in 16 bits and so at 4.0."""
    if to.dtype == x.dtype and _is_of_wide(to) and _is_of_wide(x):
        return to.view(torch.complex128), x.view(torch.complex128)
    return to, x


class Exchange:
    """Messages that are posted together. Between two ranks, they arrive in the order in which both name them."""

    def __init__(self, group, what):
        self.group, self.what = group, what
        self.ops, self.works, self.kept = [], [], []
        self.copies = []  # (to, from), of what stays on this rank
        self.arrived = []  # (to, from), of what has arrived

    def _add(self, op, x, peer):
        if x.numel():
            self.ops.append(dist.P2POp(op, x, self.group.global_ranks[peer], self.group.group))

    def send(self, x, peer):
        """Sends a tensor, which must not change before `wait`."""
        if not x.is_contiguous():
            part, x = x, torch.empty_like(x, memory_format=torch.contiguous_format)
            self.copy_now([(x, part)])
        self.kept.append(x)
        self._add(dist.isend, x, peer)

    def receive(self, x, peer):
        """Receives into a contiguous tensor."""
        self._add(dist.irecv, x, peer)

    def post(self):
        """Starts the messages: after what the current stream has, and beside what it gets."""
        if self.ops:
            try:
                self.works = dist.batch_isend_irecv(self.ops)
            except RuntimeError as error:
                raise self.group.lost(self.what, error) from error
        return self

    @staticmethod
    def copy_now(pairs):
        """Copies tensors, (to, from), by one call, since the processor prepares each."""
        if pairs:
            torch._foreach_copy_(*map(list, zip(*itertools.starmap(_wide, pairs))))

    def copy(self):
        self.copy_now(self.copies)
        self.copies = []

    def wait(self, other=None):
        """Makes the current stream and another one, or on the CPU the process, wait until the messages have arrived."""
        try:
            for work in self.works:
                work.wait()
                if other is not None:
                    with torch.cuda.stream(other):
                        work.wait()
        except RuntimeError as error:
            raise self.group.lost(self.what, error) from error
        self.copy_now(self.copies + self.arrived)
        self.ops, self.works, self.kept, self.copies, self.arrived = [], [], [], [], []


def gates_of(like, size, gates):
    """Small tensors for `post_beside` and `let_begin`, which `gates` keeps: one to send, and one for each process."""
    if like.device not in gates:
        with torch.inference_mode(False):  # later calls write to them in any mode
            gates[like.device] = torch.zeros(1, device=like.device), torch.zeros(size, device=like.device)
    return gates[like.device]


def let_begin(like, size, gates):
    """Gives messages that are posted time to begin before the next kernels: both become ready at once, and a kernel that begins
    first takes all multiprocessors. Small kernels, of 10 microseconds together, go before these."""
    if like.device.type in GATED:
        sent, _ = gates_of(like, size, gates)
        for _ in range(SMALL_KERNELS):
            sent.zero_()


def post_beside(exchange, peers, like, gates):
    """Posts messages that are to run beside the next kernels of the current stream. Kernels that take all multiprocessors would
    delay them, and, where they began on one side alone, the wait for the other side would hold multiprocessors. So small messages
    go first, for which the stream waits: both sides then come here, and the others follow at once. `gates` keeps their tensors."""
    if like.device.type in GATED:  # on all ranks alike
        sent, received = gates_of(like, exchange.group.size, gates)
        gate = Exchange(exchange.group, exchange.what)
        for peer in peers:
            gate.send(sent, peer)
            gate.receive(received[peer:peer + 1], peer)
        gate.post()
        exchange.post()
        gate.wait()
        let_begin(like, exchange.group.size, gates)
    else:
        exchange.post()
    return exchange
