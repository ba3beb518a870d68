"""How many copies of inputs and outputs the steps of a timing take in turn. harness/rotation.h has the same rule.

A step must not find in L2 what the step before has left there. There are as many copies as make

    fixed + copies * rotated >= L2_MULTIPLE * L2

where `fixed` are the bytes of weights, of which there is one copy as in real use, and `rotated` those of inputs and outputs. At least
one copy, at most MOST_COPIES, and no more than fit into half of the free memory.
"""

L2_MULTIPLE = 4
MOST_COPIES = 16


def copies(fixed, rotated, l2, free):
    missing = max(0, L2_MULTIPLE * l2 - fixed)
    wanted = -(-missing // max(1, rotated))
    return max(1, min(wanted, MOST_COPIES, free // 2 // max(1, rotated)))
