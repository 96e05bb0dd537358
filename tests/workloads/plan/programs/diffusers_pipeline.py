"""diffusers: a DDPM pipeline makes images from noise."""

import torch
from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel

unet = UNet2DModel(
    sample_size=32, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(32, 64), norm_num_groups=8,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)
pipeline = DDPMPipeline(unet=unet, scheduler=DDPMScheduler(num_train_timesteps=1000)).to("cuda")
pipeline.set_progress_bar_config(disable=True)
images = pipeline(batch_size=4, num_inference_steps=5, generator=torch.Generator("cpu").manual_seed(0), output_type="np").images
print(images.shape)
