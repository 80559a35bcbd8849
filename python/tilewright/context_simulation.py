# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An event simulation of a ring of GPUs, between which K and V, and in a backward dK and dV, go around. Needs no PyTorch."""


def run_ring(kernels, offsets, values, sums=None, wraps=True):
    """The seconds after which all ranks of a ring have ended.

    `kernels[rank][step]` are the seconds of each kernel. In step s a rank computes on the keys of the rank `offsets[s]` before
    it, which has this number modulo the size of the ring only if the ring `wraps`. Keys arrive from the rank before, if that
    has just had them, and else from their owner. `values[rank]` and `sums[rank]` are the seconds of a message from a rank: K
    and V, and dK and dV, which are summed on the way and go from the last step to their owner. A rank computes one kernel at a
    time and sends one message at a time, in the order of steps; both overlap. It receives keys of the next step as soon as the
    kernel before the present one has ended, into the buffer which that has read."""
    size, steps = len(kernels), len(offsets)
    link, done, arrived, summed = ([0.0] * size for _ in range(4))
    end = 0.0

    def source(rank, distance):
        other = rank - distance
        return other % size if wraps else other if 0 <= other < size else None

    for step in range(steps):
        is_last = step + 1 == steps
        relayed = not is_last and offsets[step + 1] == offsets[step] + 1
        arriving, summing, ended = [0.0] * size, [0.0] * size, []
        if not is_last:
            distance = 1 if relayed else offsets[step + 1]
            for rank in range(size):
                sender = source(rank, distance)
                if sender is None:
                    continue
                start = link[sender]
                if start < done[rank]:
                    start = done[rank]
                if relayed and start < arrived[sender]:
                    start = arrived[sender]
                link[sender] = arriving[rank] = start + values[sender]
        for rank, (before, came, needed) in enumerate(zip(done, arrived, summed)):
            time = (before if before > came else came) + kernels[rank][step]
            ended.append(time if time > needed else needed)
        if sums and steps > 1 and (relayed or offsets[step] != 0):  # a rank keeps the sums for its own keys
            for rank, time in enumerate(ended):
                receiver = source(rank, -1) if relayed else rank
                if receiver is None:
                    continue
                link[rank] = (link[rank] if link[rank] > time else time) + sums[rank]
                if relayed:
                    summing[receiver] = link[rank]
                elif end < link[rank]:
                    end = link[rank]
        done, arrived, summed = ended, arriving, summing
    return max(end, *done)
