"""A language model of an LSTM with truncated backpropagation, as PyTorch's word_language_model; then it samples words."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embed, self.drop = nn.Embedding(words, width), nn.Dropout(0.2)
        self.rnn, self.out = nn.LSTM(width, width, 2, dropout=0.2), nn.Linear(width, words)

    def forward(self, words, hidden):
        output, hidden = self.rnn(self.drop(self.embed(words)), hidden)
        return self.out(self.drop(output)).flatten(0, 1), hidden


model = Model(2000, 256).to("cuda")
corpus = torch.randint(0, 2000, (36 * 5 + 1, 20)).to("cuda")
hidden = tuple(torch.zeros(2, 20, 256, device="cuda") for _ in range(2))
total = 0.0
for at in range(0, 36 * 4, 36):
    hidden = tuple(each.detach() for each in hidden)
    model.zero_grad()
    output, hidden = model(corpus[at : at + 36], hidden)
    loss = nn.functional.cross_entropy(output, corpus[at + 1 : at + 37].flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    for parameter in model.parameters():
        parameter.data.add_(parameter.grad, alpha=-20.0)
    total += loss.item()
model.eval()
word, hidden = torch.randint(2000, (1, 1), device="cuda"), None
with torch.no_grad():
    hidden = tuple(torch.zeros(2, 1, 256, device="cuda") for _ in range(2))
    for _ in range(10):
        output, hidden = model(word, hidden)
        word.fill_(torch.multinomial(output.squeeze().exp().cpu(), 1)[0])
print(total)
