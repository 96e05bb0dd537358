"""Prints the cards that the package identifies as CUDA's, before CUDA is started and after: one line of UUIDs each,
then NVML's number of each."""

from gpumem import _devices, _driver

before = [device.uuid for device in _devices.visible()]
assert _driver.count() is None or len(set(before)) == len(before)
_driver.initialise()
after = [device.uuid for device in _devices.visible()]
print(*before)
print(*after)
print(*[_devices.nvml_index(place) for place in range(len(after))])
