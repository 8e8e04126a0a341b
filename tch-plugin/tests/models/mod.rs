//! Small models and training steps that cover all kinds of ops in trainings.

#![allow(dead_code, reason = "each file of tests uses a part of it")]

use mlprof_tch::prelude::*;
use tch::nn::{self, Conv2D, ConvConfig, Embedding, LayerNorm, Linear, Module, ModuleT, VarStore};
use tch::{Device, Kind, Tensor, kind::FLOAT_CPU, kind::INT64_CPU};

/// A model with its data and optimizer.
pub struct Training {
    pub store: VarStore,
    pub optimizer: TchOptimizer,
    loss: Box<dyn Fn() -> Tensor>,
}

impl Training {
    fn new(store: VarStore, loss: impl Fn() -> Tensor + 'static) -> Self {
        let optimizer = TchOptimizer::new(nn::AdamW::default(), &store, 1e-3).expect("valid");
        Self { store, optimizer, loss: Box::new(loss) }
    }

    /// Runs forward, backward and the optimizer, and returns the loss.
    pub fn step(&mut self) -> f64 {
        self.optimizer.zero_grad().expect("torch can");
        let loss = (self.loss)();
        self.optimizer.backward(&loss, 1.0).expect("a loss");
        self.optimizer.step().expect("there are gradients");
        loss.double_value(&[])
    }
}

/// Returns the network of the digits examples with `batch` images of noise.
pub fn digits_cnn(batch: i64) -> Training {
    let store = VarStore::new(Device::Cpu);
    let root = &store.root();
    let config = ConvConfig { padding: 1, ..Default::default() };
    let conv1: Conv2D = nn::conv2d(root / "conv1", 1, 16, 3, config);
    let conv2: Conv2D = nn::conv2d(root / "conv2", 16, 32, 3, config);
    let norm = nn::batch_norm2d(root / "norm", 32, Default::default());
    let hidden: Linear = nn::linear(root / "hidden", 32 * 4 * 4, 64, Default::default());
    let out: Linear = nn::linear(root / "out", 64, 10, Default::default());
    let images = Tensor::rand([batch, 1, 8, 8], FLOAT_CPU);
    let classes = Tensor::randint(10, [batch], INT64_CPU);
    Training::new(store, move || {
        let edges = conv1.forward(&images).relu();
        let shapes = norm.forward_t(&conv2.forward(&edges), true).relu();
        let features = shapes.max_pool2d_default(2).flat_view().dropout(0.1, true);
        let scores = out.forward(&hidden.forward(&features).relu());
        scores.cross_entropy_for_logits(&classes)
    })
}

const HEADS: i64 = 4;
const WIDTH: i64 = 32;
const LETTERS: i64 = 40;

struct Block {
    before_attention: LayerNorm,
    attention: Linear,
    projection: Linear,
    before_wide: LayerNorm,
    wide: Linear,
    narrow: Linear,
}

impl Block {
    fn new(path: &nn::Path<'_>) -> Self {
        let linear = |name: &str, from, to| nn::linear(path / name, from, to, Default::default());
        let norm = |name: &str| nn::layer_norm(path / name, vec![WIDTH], Default::default());
        Self {
            before_attention: norm("before_attention"),
            attention: linear("attention", WIDTH, 3 * WIDTH),
            projection: linear("projection", WIDTH, WIDTH),
            before_wide: norm("before_wide"),
            wide: linear("wide", WIDTH, 4 * WIDTH),
            narrow: linear("narrow", 4 * WIDTH, WIDTH),
        }
    }

    fn attend(&self, letters: &Tensor, mask: &Tensor) -> Tensor {
        let (batch, length, _) = letters.size3().expect("three dimensions");
        let parts = self.attention.forward(letters);
        let parts = parts.view([batch, length, 3, HEADS, WIDTH / HEADS]).permute([2, 0, 3, 1, 4]);
        let [query, key, value] = [0, 1, 2].map(|part| parts.select(0, part));
        let scores = query.matmul(&key.transpose(-2, -1)) / f64::sqrt((WIDTH / HEADS) as f64);
        let weights = scores.masked_fill(mask, f64::NEG_INFINITY).softmax(-1, Kind::Float);
        let seen = weights.matmul(&value).transpose(1, 2).contiguous();
        self.projection.forward(&seen.view([batch, length, WIDTH]))
    }

    fn forward(&self, letters: &Tensor, mask: &Tensor) -> Tensor {
        let letters = letters + self.attend(&self.before_attention.forward(letters), mask);
        let wide = self.wide.forward(&self.before_wide.forward(&letters)).gelu("tanh");
        letters + self.narrow.forward(&wide)
    }
}

/// Returns a transformer of two blocks that predicts the next letter of random text.
pub fn transformer(batch: i64, length: i64) -> Training {
    let store = VarStore::new(Device::Cpu);
    let root = &store.root();
    let letters: Embedding = nn::embedding(root / "letters", LETTERS, WIDTH, Default::default());
    let places: Embedding = nn::embedding(root / "places", length, WIDTH, Default::default());
    let blocks = [0, 1].map(|number| Block::new(&(root / "block" / number)));
    let out: Linear = nn::linear(root / "out", WIDTH, LETTERS, Default::default());
    let text = Tensor::randint(LETTERS, [batch, length + 1], INT64_CPU);
    let order = Tensor::arange(length, INT64_CPU);
    let mask = Tensor::ones([length, length], (Kind::Bool, Device::Cpu)).triu(1);
    Training::new(store, move || {
        let (input, target) = (text.narrow(1, 0, length), text.narrow(1, 1, length));
        let mut state = letters.forward(&input) + places.forward(&order);
        for block in &blocks {
            state = block.forward(&state, &mask);
        }
        let scores = out.forward(&state).view([-1, LETTERS]);
        scores.cross_entropy_for_logits(&target.reshape([-1]))
    })
}

/// Returns ops with numbers of all kinds among their inputs.
pub fn numbers() -> Training {
    let store = VarStore::new(Device::Cpu);
    let weight = store.root().var("weight", &[40, 4], nn::Init::Const(0.5));
    Training::new(store, move || {
        let mut sum = weight.sum(Kind::Float);
        for number in [1e-8, -0.0, 0.1, -1.0, 1e12, 1e19, 2.5e-310, 1e38] {
            sum += (&weight * 0.0 + number).clamp(-1e30, 1.0).mean(Kind::Float);
        }
        let parts = weight.split_with_sizes([1; 40], 0);
        let whole = Tensor::cat(&parts[..20], 0) + 3_i64;
        let rows = whole.index(&[Some(Tensor::from_slice(&[0_i64, 2]))]);
        let spread = rows.std_dim(&[0_i64, 1][..], true, false);
        let waves = whole.fft_fft(None, -1, "ortho").abs();
        let narrow = whole.transpose(0, 1).slice(1, 0, None, 2).pow_tensor_scalar(2);
        let none: [i64; 0] = [];
        let all =
            [sum, spread, waves.mean(Kind::Float), narrow.sum_dim_intlist(&none[..], false, None)];
        Tensor::stack(&all, 0).sum(Kind::Double)
    })
}
