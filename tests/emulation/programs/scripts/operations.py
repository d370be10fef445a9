"""Calls that programs make on GPU tensors, each for its shape, its type and its place; exact where values are known."""

import math

import torch
import torch.nn.functional as F
from torch import nn

cuda = torch.device("cuda")


def selection() -> None:
    """Masks, sorting, gathering."""
    x = torch.randn(6, 8, device=cuda)
    known = torch.arange(10, device=cuda)
    assert known[known > 6].tolist() == [7, 8, 9]
    assert x[x > 0].dim() == 1
    x[x < 0] = 0.0
    x[:, known[:3]] = 1.0
    assert torch.unique(torch.tensor([3, 1, 3], device=cuda)).tolist() == [1, 3]
    found, back, counts = torch.unique(torch.tensor([3, 1, 3], device=cuda), return_inverse=True, return_counts=True)
    assert (found.tolist(), back.tolist(), counts.tolist()) == ([1, 3], [1, 0, 1], [1, 2])
    best, where = x.topk(3, dim=1)
    assert best.shape == where.shape == (6, 3)
    assert where.dtype == torch.int64
    ordered, order = torch.sort(x, dim=0, descending=True)
    assert ordered.shape == order.shape == x.shape
    assert x.gather(1, where).shape == (6, 3)
    assert torch.zeros(6, 8, device=cuda).scatter_(1, where, best).shape == (6, 8)
    assert torch.zeros(6, 8, device=cuda).scatter_add_(1, where, best).is_cuda
    assert torch.zeros(4, 8, device=cuda).index_add_(0, torch.tensor([0, 1, 1, 3, 2, 0], device=cuda), x).shape == (
        4,
        8,
    )
    assert x.index_select(0, torch.tensor([1, 2], device=cuda)).shape == (2, 8)
    assert torch.masked_select(known, known.eq(4)).item() == 4
    assert x.masked_fill(x == 1, -math.inf).shape == x.shape
    assert torch.where(x > 0, x, torch.zeros_like(x)).shape == x.shape
    assert torch.nonzero(known % 2, as_tuple=True)[0].tolist() == [1, 3, 5, 7, 9]
    assert torch.bincount(torch.tensor([0, 2, 2], device=cuda)).tolist() == [1, 0, 2]
    assert torch.searchsorted(known, torch.tensor([4], device=cuda)).item() == 4
    assert torch.take_along_dim(x, where, dim=1).shape == (6, 3)
    assert torch.roll(x, 1, 0).flip(1).shape == x.shape
    assert x.kthvalue(2, dim=1).values.shape == (6,)
    assert x.median(dim=0).values.shape == x.mode(dim=0).values.shape == (8,)
    assert torch.isin(known, torch.tensor([2, 3], device=cuda)).sum().item() == 2
    assert torch.repeat_interleave(known[:3], torch.tensor([1, 0, 2], device=cuda)).tolist() == [0, 2, 2]
    assert torch.cartesian_prod(known[:2], known[:3]).shape == (6, 2)
    assert torch.multinomial(torch.ones(4, 5, device=cuda), 2).shape == (4, 2)
    assert len(x.split(2)) == len(x.chunk(3)) == 3
    assert torch.stack(x.unbind(0)).shape == x.shape
    assert torch.histc(x, bins=4).shape == (4,)


def algebra() -> None:
    """Products, decompositions, transforms."""
    a, b = torch.randn(4, 5, 6, device=cuda), torch.randn(4, 6, 7, device=cuda)
    assert torch.einsum("bij,bjk->bik", a, b).shape == (a @ b).shape == (4, 5, 7)
    assert torch.cdist(a, torch.randn(4, 3, 6, device=cuda)).shape == (4, 5, 3)
    assert torch.quantile(a, torch.tensor([0.1, 0.9], device=cuda), dim=1).shape == (2, 4, 6)
    square = torch.randn(4, 6, 6, device=cuda)
    positive = square @ square.mT + torch.eye(6, device=cuda)
    assert torch.linalg.cholesky(positive).shape == torch.linalg.inv(positive).shape == (4, 6, 6)
    assert torch.linalg.solve(positive, b).shape == (4, 6, 7)
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    assert (u.shape, s.shape, vh.shape) == ((4, 5, 5), (4, 5), (4, 5, 6))
    q, r = torch.linalg.qr(a.mT)
    assert (q.shape, r.shape) == ((4, 6, 5), (4, 5, 5))
    assert torch.linalg.eigh(positive).eigenvalues.shape == (4, 6)
    assert torch.linalg.eigvals(square).dtype == torch.complex64
    assert torch.linalg.det(square).shape == torch.logdet(positive).shape == (4,)
    assert torch.linalg.lstsq(a.mT, b[:, :, :2]).solution.shape == (4, 5, 2)
    assert torch.linalg.matrix_norm(a).shape == torch.linalg.vector_norm(a, dim=(1, 2)).shape == (4,)
    assert torch.linalg.pinv(a).shape == (4, 6, 5)
    assert torch.matrix_exp(square).shape == (4, 6, 6)
    assert torch.outer(a[0, 0], b[0, 0]).shape == torch.kron(a[0, 0, None].mT, b[0, 0, None]).shape == (6, 7)
    assert torch.tril(square).triu().diagonal(dim1=1, dim2=2).shape == (4, 6)
    assert torch.baddbmm(torch.zeros(4, 5, 7, device=cuda), a, b).shape == (4, 5, 7)
    assert torch.addmm(torch.zeros(5, 7, device=cuda), a[0], b[0]).mv(torch.ones(7, device=cuda)).shape == (5,)
    spectrum = torch.fft.rfft(a)
    assert (spectrum.dtype, spectrum.shape) == (torch.complex64, (4, 5, 4))
    assert torch.fft.irfft(spectrum, n=6).shape == a.shape
    assert torch.view_as_real(torch.fft.fft2(a)).shape == (4, 5, 6, 2)
    assert (spectrum.abs() + spectrum.angle() + spectrum.real + spectrum.imag).dtype == torch.float32
    assert torch.polar(a.abs(), a).conj().is_complex()
    waves = torch.randn(2, 1600, device=cuda)
    bands = torch.stft(waves, 400, 160, window=torch.hann_window(400, device=cuda), return_complex=True)
    assert bands.shape == (2, 201, 11)
    assert torch.istft(bands, 400, 160, window=torch.hann_window(400, device=cuda)).shape == (2, 1600)
    assert a.cumsum(1).cumprod(2).logcumsumexp(0).logsumexp(1).shape == (4, 6)
    assert torch.var_mean(a, dim=0)[0].shape == a.std(0).shape == (5, 6)
    assert torch.special.erf(a).clamp(0, 1).lerp(a, 0.5).addcmul(a, a).shape == a.shape
    assert torch.cov(a[0]).shape == torch.corrcoef(a[0]).shape == (5, 5)
    assert torch.trapezoid(a).shape == torch.diff(a, dim=0)[0].sum(-1).expand(4, 5).shape
    grid = torch.meshgrid(torch.arange(3, device=cuda), torch.arange(2, device=cuda), indexing="ij")
    assert grid[0].shape == (3, 2)
    assert torch.func.vmap(torch.dot)(a[0], a[1]).shape == (5,)
    gradient = torch.func.grad(lambda x: (x**2).sum())(a)
    assert gradient.shape == a.shape
    assert torch.autograd.functional.jacobian(lambda x: x**2, torch.ones(3, device=cuda)).shape == (3, 3)


def layers() -> None:
    """Functions of torch.nn, forwards and backwards."""
    x = torch.randn(2, 4, 16, 16, device=cuda, requires_grad=True)
    grid = F.affine_grid(torch.eye(2, 3, device=cuda).expand(2, 2, 3), [2, 4, 8, 8], align_corners=False)
    outputs = [
        F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False),
        F.interpolate(x, size=(5, 7), mode="nearest"),
        F.interpolate(x, size=(5, 7), mode="bicubic", antialias=True),
        F.grid_sample(x, grid, align_corners=False),
        F.unfold(x, 3),
        F.fold(F.unfold(x, 2, stride=2), (16, 16), 2, stride=2),
        F.pixel_shuffle(x, 2),
        F.avg_pool2d(x, 2),
        F.adaptive_avg_pool2d(x, 3),
        F.adaptive_max_pool2d(x, 3),
        F.lp_pool2d(x, 2, 2),
        F.local_response_norm(x, 3),
        F.instance_norm(x),
        F.pad(x, (1, 1, 1, 1), mode="reflect"),
        F.pad(x, (1, 1, 1, 1), mode="replicate"),
        F.gelu(x) + F.elu(x) + F.mish(x) + F.hardswish(x) + F.softplus(x) + F.selu(x) + F.glu(x, 1).repeat(1, 2, 1, 1),
        F.prelu(x, torch.rand(4, device=cuda)),
        F.dropout2d(x) + F.alpha_dropout(x) + F.feature_alpha_dropout(x),
        F.normalize(x) * F.cosine_similarity(x, x).unsqueeze(1),
        F.gumbel_softmax(x, hard=True),
        nn.ConvTranspose2d(4, 2, 3, stride=2, groups=2).to(cuda)(x),
        nn.Conv2d(4, 4, 3, padding="same", dilation=2, padding_mode="circular", device=cuda)(x),
        nn.Bilinear(16, 16, 3, device=cuda)(x, x),
        nn.Conv1d(4, 8, 3, device=cuda)(x.flatten(2)),
        nn.Conv3d(4, 8, 3, device=cuda)(x.unsqueeze(2).expand(-1, -1, 3, -1, -1)),
        nn.RMSNorm(16, device=cuda)(x) + nn.LayerNorm(16, device=cuda)(x),
        nn.EmbeddingBag(10, 4, mode="mean", device=cuda)(torch.arange(6, device=cuda).view(2, 3)),
        nn.MaxUnpool2d(2)(*F.max_pool2d(x, 2, return_indices=True)),
    ]
    sum(output.float().mean() for output in outputs).backward()
    assert x.grad is not None
    assert x.grad.shape == x.shape


def losses() -> None:
    """Every loss gives a scalar with a gradient."""
    score = torch.randn(6, 5, device=cuda, requires_grad=True)
    other, target = torch.randn(6, 5, device=cuda), torch.randint(0, 5, (6,), device=cuda)
    sign = torch.ones(6, device=cuda)
    steps = torch.randn(12, 2, 5, device=cuda, requires_grad=True).log_softmax(2)
    found = [
        F.cross_entropy(score, target, label_smoothing=0.1),
        F.cross_entropy(score, other.softmax(1)),
        F.nll_loss(score.log_softmax(1), target),
        F.mse_loss(score, other),
        F.l1_loss(score, other),
        F.smooth_l1_loss(score, other),
        F.huber_loss(score, other),
        F.kl_div(score.log_softmax(1), other.softmax(1), reduction="batchmean"),
        F.binary_cross_entropy_with_logits(score, other.sigmoid(), pos_weight=torch.ones(5, device=cuda)),
        F.cosine_embedding_loss(score, other, sign),
        F.triplet_margin_loss(score, other, other.flip(0)),
        F.margin_ranking_loss(score[:, 0], score[:, 1], sign),
        F.hinge_embedding_loss(score, other.sign()),
        F.poisson_nll_loss(score, other.abs()),
        F.gaussian_nll_loss(score, other, torch.ones(6, 5, device=cuda)),
        F.multi_margin_loss(score, target),
        F.multilabel_soft_margin_loss(score, other.sigmoid()),
        F.soft_margin_loss(score, other.sign()),
        F.ctc_loss(steps, torch.randint(1, 5, (2, 4), device=cuda), torch.tensor([12, 12]), torch.tensor([4, 3])),
    ]
    total = torch.stack(found).sum()
    assert total.dim() == 0
    total.backward()
    assert score.grad is not None


def places() -> None:
    """Where tensors are, and what types are called there."""
    x = torch.zeros(2, 3, device="cuda:1")
    assert x.device == torch.device("cuda", 1)
    assert x.get_device() == 1
    assert (x + 1).device == x.device == torch.zeros_like(x).device == x.new_ones(2).device
    assert x.to("cuda:0").device.index == 0
    assert x.type() == "torch.cuda.FloatTensor"
    assert x.half().type() == "torch.cuda.HalfTensor"
    assert torch.cuda.FloatTensor([1.0, 2.0]).tolist() == [1.0, 2.0]
    assert torch.ones(2).type(torch.cuda.LongTensor).is_cuda
    assert torch.ones(2).type("torch.cuda.DoubleTensor").dtype == torch.float64
    assert isinstance(torch.ones(2, device=cuda), torch.cuda.FloatTensor)
    assert not isinstance(torch.ones(2), torch.cuda.FloatTensor)
    assert x.cpu().device.type == "cpu"
    assert (x.to(cuda) * 2.0 + torch.tensor(1.0)).shape == (2, 3), "a number on the host may join in"
    with torch.cuda.device(1):
        assert torch.ones(1, device="cuda").device.index == 1


if __name__ == "__main__":
    for part in (selection, algebra, layers, losses, places):
        part()
        print(part.__name__, "ok")
