"""Speech: spectrograms by torch.stft, a bidirectional GRU over sequences of several lengths, CTC loss."""

import torch
from torch import nn


class Recognizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(201, 128, 3, stride=2, padding=1), nn.BatchNorm1d(128), nn.ReLU())
        self.rnn, self.head = nn.GRU(128, 128, 2, bidirectional=True, batch_first=True), nn.Linear(256, 30)
        self.register_buffer("window", torch.hann_window(400))

    def forward(self, waves, lengths):
        spectra = torch.stft(waves, 400, 200, window=self.window, return_complex=True).abs().log1p()
        packed = nn.utils.rnn.pack_padded_sequence(self.front(spectra).transpose(1, 2), lengths, batch_first=True)
        output, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.head(output).log_softmax(-1).transpose(0, 1)


model = Recognizer().cuda()
optimizer = torch.optim.Adam(model.parameters())
lengths = torch.tensor([61, 50, 45, 33])
for _ in range(2):
    scores = model(torch.randn(4, 24000, device="cuda"), lengths)
    loss = nn.functional.ctc_loss(scores, torch.randint(1, 30, (4, 12), device="cuda"), lengths, torch.tensor([12, 10, 9, 5]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
