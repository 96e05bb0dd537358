"""Prints the cards that the package identifies as CUDA's, before CUDA is started and after: one line of UUIDs each,
then NVML's number of each."""

from gpumem._machine import devices
from gpumem._machine import driver

before = [device.uuid for device in devices.visible()]
assert driver.count() is None or len(set(before)) == len(before)
driver.initialise()
after = [device.uuid for device in devices.visible()]
print(*before)
print(*after)
print(*[devices.nvml_index(place) for place in range(len(after))])
