"""Any number of Python stacks, from generated code: three functions, each with a hundred places that call the next,
make a million stacks.

    many_stacks.py COUNT GENERATED   writes the code to the file GENERATED, allocates a tensor under each of
                                     the first COUNT stacks, keeps them all, and prints as JSON how many
                                     bytes each line of GENERATED has allocated: [[line, bytes] …]
"""

import json
import sys

# Places of each of the three functions.
PLACES = 100


def source(innermost):
    """The three functions. By the decimal digits of `number` they choose the places; the innermost one
    does `innermost`, in which `place` stands for its own place."""
    lines = []
    for name, call, place in (
        ("outermost", "middle(number)", "number // 10000 % 100"),
        ("middle", "inner(number)", "number // 100 % 100"),
        ("inner", innermost, "number % 100"),
    ):
        lines += [f"def {name}(number):", f"    place = {place}", *branches(0, PLACES, call, "    ")]
    return lines


def branches(first, end, call, indent):
    """Lines that do `call`, one for each value of `place` in the range. They are found by binary search, so that the
    last is as near as the first."""
    if end - first == 1:
        return [f"{indent}{call}  # place {first}"]
    middle = (first + end) // 2
    return [
        f"{indent}if place < {middle}:",
        *branches(first, middle, call, indent + " "),
        f"{indent}else:",
        *branches(middle, end, call, indent + " "),
    ]


def compiled(lines, path, **names):
    """The function `outermost` of such code, with `names` as its globals."""
    exec(compile("\n".join(lines), path, "exec"), names)
    return names["outermost"]


def caller(action):
    """A function that calls `action(number)` under the stack of that number, one of a million."""
    return compiled(source("action(number)"), "generated", action=action)


def main():
    import torch

    count, path = int(sys.argv[1]), sys.argv[2]
    kept = []
    code = source("kept.append(empty(512 * (1 + place), dtype=kind, device='cuda'))")
    with open(path, "w") as file:
        file.write("\n".join(code))
    allocate = compiled(code, path, kept=kept, empty=torch.empty, kind=torch.uint8)
    for number in range(count):
        allocate(number)
    lines = {}
    for line, text in enumerate(code, 1):
        if "kept.append" in text:
            place = int(text.rsplit(" ", 1)[1])
            blocks = len(range(place, count, PLACES))
            lines[line] = blocks * 512 * (1 + place)
    assert sum(lines.values()) == torch.cuda.memory_allocated()
    print(json.dumps(sorted(lines.items())))


if __name__ == "__main__":
    main()
