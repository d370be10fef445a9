"""REINFORCE with a baseline: actions are drawn on the GPU, and the world reacts to them."""

from collections import deque

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.distributions import Categorical, Normal


class World:
    """Ends an episode after a number of steps that depends on what was done."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(0)
        self.energy = 0

    def reset(self) -> torch.Tensor:
        self.energy = 8
        return torch.rand(4, generator=self.generator)

    def step(self, action: int) -> tuple[torch.Tensor, float, bool]:
        assert action in (0, 1)
        self.energy -= 1 + action
        return torch.rand(4, generator=self.generator), 1.0, self.energy <= 0


class Policy(nn.Module):
    """Chooses among two actions and estimates how good a state is."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.action, self.value = nn.Linear(4, 64), nn.Linear(64, 2), nn.Linear(64, 1)

    def forward(self, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = F.relu(self.body(state))
        return F.softmax(self.action(hidden), dim=-1), self.value(hidden)


def main() -> None:
    device = torch.device("cuda")
    policy = Policy().to(device)
    optimizer = optim.Adam(policy.parameters(), lr=3e-2)
    world = World()
    recent: deque[float] = deque(maxlen=10)
    for episode in range(5):
        observed, done = world.reset(), False
        chosen: list[tuple[torch.Tensor, torch.Tensor]] = []
        rewards: list[float] = []
        while not done:
            probabilities, value = policy(observed.unsqueeze(0).to(device))
            distribution = Categorical(probabilities)
            action = distribution.sample()
            chosen.append((distribution.log_prob(action), value))
            observed, reward, done = world.step(action.item())
            rewards.append(reward)
        returns: deque[float] = deque()
        total = 0.0
        for reward in reversed(rewards):
            total = reward + 0.99 * total
            returns.appendleft(total)
        targets = torch.tensor(returns, device=device)
        targets = (targets - targets.mean()) / (targets.std() + 1e-6)
        losses = []
        for (log_probability, value), target in zip(chosen, targets, strict=True):
            advantage = target - value.item()
            losses.append(-log_probability * advantage + F.smooth_l1_loss(value.squeeze(), target))
        optimizer.zero_grad()
        loss = torch.cat(losses).sum()
        loss.backward()
        optimizer.step()
        recent.append(sum(rewards))
        print(f"Episode {episode} Last reward: {sum(rewards):.2f} Average: {sum(recent) / len(recent):.2f}")
    continuous = Normal(torch.zeros(3, device="cuda"), torch.ones(3, device="cuda"))
    drawn = continuous.rsample((5,))
    assert continuous.log_prob(drawn).sum(-1).shape == (5,)
    assert continuous.entropy().is_cuda


if __name__ == "__main__":
    main()
