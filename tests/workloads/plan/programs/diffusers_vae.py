"""diffusers: an autoencoder in float16 encodes images and decodes them in slices."""

import torch
from diffusers import AutoencoderKL

vae = AutoencoderKL(
    in_channels=3, out_channels=3, latent_channels=4, block_out_channels=(32, 64), norm_num_groups=8, sample_size=64,
    down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
).to("cuda", torch.float16)
vae.enable_slicing()
with torch.no_grad():
    latents = vae.encode(torch.randn(4, 3, 64, 64, dtype=torch.float16, device="cuda")).latent_dist.sample()
    images = vae.decode(latents).sample.clamp(-1, 1).cpu()
print(images.shape)
