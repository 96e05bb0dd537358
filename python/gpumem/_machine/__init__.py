"""What a machine has: gpumem's installed files, the CUDA driver, NVML, devices, RAM, known cards, the simulated card."""
