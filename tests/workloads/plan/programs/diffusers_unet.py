"""diffusers: trains a conditional UNet to predict noise, in bfloat16 by autocast."""

import torch
from diffusers import DDPMScheduler, UNet2DConditionModel

unet = UNet2DConditionModel(
    sample_size=16, in_channels=4, out_channels=4, block_out_channels=(32, 64), layers_per_block=1, cross_attention_dim=64,
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), norm_num_groups=8,
).to("cuda")
unet.enable_gradient_checkpointing()
scheduler = DDPMScheduler(num_train_timesteps=1000)
optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4)
for _ in range(3):
    latents, text = torch.randn(8, 4, 16, 16, device="cuda"), torch.randn(8, 20, 64, device="cuda")
    noise = torch.randn_like(latents)
    steps = torch.randint(0, 1000, (8,), device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        predicted = unet(scheduler.add_noise(latents, noise, steps), steps, text).sample
    loss = torch.nn.functional.mse_loss(predicted.float(), noise)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print(loss.detach().item())
