"""transformers: greedy generation with a cache of keys and values, until all sequences have ended."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=500, hidden_size=256, intermediate_size=688, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4,
    max_position_embeddings=512, eos_token_id=2, pad_token_id=0,
)
model = LlamaForCausalLM(config).to("cuda", torch.float16).eval()
prompt = torch.randint(3, 500, (4, 64), device="cuda")
output = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=64, do_sample=False)
print(output.shape)
