//! A small transformer that guesses the next character, each layer a row of the report.

use candle_core::{D, Device, IndexOp, Module, Result, Tensor};
use candle_nn::{Embedding, Init, Linear, VarBuilder, linear_no_bias, ops};
use mlprof_candle::prelude::*;

/// How large it is.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// How many different characters there are.
    pub vocabulary: usize,
    /// How many characters it sees at once.
    pub context: usize,
    /// How many numbers stand for a character.
    pub width: usize,
    /// How many heads share the width.
    pub heads: usize,
    /// How many blocks of attention and MLP.
    pub blocks: usize,
}

/// `[batch, time]` character numbers to `[batch, time, vocabulary]` scores of what comes next.
#[derive(Debug)]
pub struct CharTransformer {
    characters: ProfiledLayer<Embedding>,
    positions: ProfiledLayer<Embedding>,
    blocks: Vec<ProfiledLayer<Block>>,
    norm: ProfiledLayer<LayerNorm>,
    head: ProfiledLayer<Linear>,
    context: usize,
}

impl CharTransformer {
    /// With the weights of `vb`.
    ///
    /// # Errors
    ///
    /// What candle says of shapes that do not fit.
    pub fn new(config: Config, vb: &VarBuilder<'_>) -> Result<Self> {
        let Config { vocabulary, context, width, .. } = config;
        let part = |name: &str| vb.pp(name);
        let blocks = (0..config.blocks).map(|number| {
            let vb = vb.pp("blocks").pp(number);
            Ok(Block::new(config, &vb)?.profile_layer(&vb))
        });
        Ok(Self {
            characters: embedding(vocabulary, width, &part("characters"))?,
            positions: embedding(context, width, &part("positions"))?,
            blocks: blocks.collect::<Result<_>>()?,
            norm: LayerNorm::new(width, &part("norm"))?.profile_layer(part("norm")),
            head: head(width, vocabulary, &part("head"))?,
            context,
        })
    }

    /// How many characters it sees at once.
    pub fn context(&self) -> usize {
        self.context
    }
}

/// Numbers around 0 that are small beside those of the blocks: candle's own, around 1, are learned
/// away only slowly.
const SMALL: Init = Init::Randn { mean: 0.0, stdev: 0.1 };

fn embedding(count: usize, width: usize, vb: &VarBuilder<'_>) -> Result<ProfiledLayer<Embedding>> {
    let vectors = vb.get_with_hints((count, width), "weight", SMALL)?;
    Ok(Embedding::new(vectors, width).profile_layer(vb))
}

fn head(width: usize, vocabulary: usize, vb: &VarBuilder<'_>) -> Result<ProfiledLayer<Linear>> {
    let weight = vb.get_with_hints((vocabulary, width), "weight", SMALL)?;
    Ok(Linear::new(weight, None).profile_layer(vb))
}

impl Module for CharTransformer {
    fn forward(&self, numbers: &Tensor) -> Result<Tensor> {
        let time = numbers.dim(D::Minus1)?;
        let places = Tensor::arange(0, time as u32, numbers.device())?;
        let mut x =
            self.characters.forward(numbers)?.broadcast_add(&self.positions.forward(&places)?)?;
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        self.head.forward(&self.norm.forward(&x)?)
    }
}

/// Attention and MLP, each normalized before and added to what came in.
#[derive(Debug)]
struct Block {
    attention_norm: ProfiledLayer<LayerNorm>,
    attention: ProfiledLayer<SelfAttention>,
    mlp_norm: ProfiledLayer<LayerNorm>,
    mlp: ProfiledLayer<Mlp>,
}

impl Block {
    fn new(config: Config, vb: &VarBuilder<'_>) -> Result<Self> {
        let part = |name: &str| vb.pp(name);
        let norm = |name: &str| -> Result<_> {
            Ok(LayerNorm::new(config.width, &part(name))?.profile_layer(part(name)))
        };
        Ok(Self {
            attention_norm: norm("attention_norm")?,
            attention: SelfAttention::new(config, &part("attention"))?
                .profile_layer(part("attention")),
            mlp_norm: norm("mlp_norm")?,
            mlp: Mlp::new(config.width, &part("mlp"))?.profile_layer(part("mlp")),
        })
    }
}

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = (x + self.attention.forward(&self.attention_norm.forward(x)?)?)?;
        &x + self.mlp.forward(&self.mlp_norm.forward(&x)?)?
    }
}

/// Each character looks at those before it.
#[derive(Debug)]
struct SelfAttention {
    queries_keys_values: ProfiledLayer<Linear>,
    out: ProfiledLayer<Linear>,
    /// 0 where a character may look, and minus infinity where it may not.
    mask: Tensor,
    heads: usize,
}

impl SelfAttention {
    fn new(config: Config, vb: &VarBuilder<'_>) -> Result<Self> {
        let Config { width, heads, context, .. } = config;
        let all = vb.pp("queries_keys_values");
        let out = vb.pp("out");
        Ok(Self {
            queries_keys_values: linear_no_bias(width, 3 * width, all.clone())?.profile_layer(&all),
            out: linear_no_bias(width, width, out.clone())?.profile_layer(&out),
            mask: causal_mask(context, vb.device())?,
            heads,
        })
    }
}

fn causal_mask(context: usize, device: &Device) -> Result<Tensor> {
    let hidden = |row, column| if column > row { f32::NEG_INFINITY } else { 0.0 };
    let mask: Vec<f32> =
        (0..context).flat_map(|row| (0..context).map(move |column| hidden(row, column))).collect();
    Tensor::from_vec(mask, (context, context), device)
}

impl Module for SelfAttention {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (batch, time, width) = x.dims3()?;
        let per_head = width / self.heads;
        let all = self
            .queries_keys_values
            .forward(x)?
            .reshape((batch, time, 3, self.heads, per_head))?
            .permute((2, 0, 3, 1, 4))?;
        let part = |number: usize| all.i(number)?.contiguous();
        let (queries, keys, values) = (part(0)?, part(1)?, part(2)?);
        let scores = (queries.matmul(&keys.t()?)? / (per_head as f64).sqrt())?;
        let scores = scores.broadcast_add(&self.mask.i((..time, ..time))?)?;
        // Not `softmax_last_dim`: candle has no gradient for it.
        let seen = ops::softmax(&scores, D::Minus1)?.matmul(&values)?;
        self.out.forward(&seen.transpose(1, 2)?.reshape((batch, time, width))?)
    }
}

/// Two linear layers.
#[derive(Debug)]
struct Mlp {
    widen: ProfiledLayer<Linear>,
    narrow: ProfiledLayer<Linear>,
}

impl Mlp {
    fn new(width: usize, vb: &VarBuilder<'_>) -> Result<Self> {
        let (widen, narrow) = (vb.pp("widen"), vb.pp("narrow"));
        Ok(Self {
            widen: linear_no_bias(width, 4 * width, widen.clone())?.profile_layer(&widen),
            narrow: linear_no_bias(4 * width, width, narrow.clone())?.profile_layer(&narrow),
        })
    }
}

impl Module for Mlp {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.narrow.forward(&self.widen.forward(x)?.gelu()?)
    }
}

/// `candle_nn::LayerNorm` runs as one fused operation that has no gradient: what lies before it
/// would not learn. This one is made of operations that have.
#[derive(Debug)]
struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
}

impl LayerNorm {
    fn new(width: usize, vb: &VarBuilder<'_>) -> Result<Self> {
        Ok(Self {
            weight: vb.get_with_hints(width, "weight", candle_nn::init::ONE)?,
            bias: vb.get_with_hints(width, "bias", candle_nn::init::ZERO)?,
        })
    }
}

impl Module for LayerNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::layer_norm_slow(x, &self.weight, &self.bias, 1e-5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::DType;
    use candle_nn::VarMap;

    const CONFIG: Config = Config { vocabulary: 11, context: 8, width: 16, heads: 4, blocks: 2 };

    fn model(vars: &VarMap) -> CharTransformer {
        let vb = seeded_var_builder(vars, 1, DType::F32, &Device::Cpu);
        CharTransformer::new(CONFIG, &vb).expect("made")
    }

    #[test]
    fn a_character_knows_nothing_of_those_after_it() -> Result<()> {
        let model = model(&VarMap::new());
        let scores =
            |numbers: &[u32]| model.forward(&Tensor::new(numbers, &Device::Cpu)?.unsqueeze(0)?);
        let (one, other) = (scores(&[1, 2, 3, 4, 5])?, scores(&[1, 2, 3, 9, 5])?);
        assert_eq!(one.dims(), [1, 5, 11]);
        let values = |scores: &Tensor, time| scores.i((0, time))?.to_vec1::<f32>();
        for time in 0..3 {
            assert_eq!(values(&one, time)?, values(&other, time)?, "at {time}");
        }
        for time in 3..5 {
            assert_ne!(values(&one, time)?, values(&other, time)?, "at {time}");
        }
        Ok(())
    }

    #[test]
    fn every_weight_learns() -> Result<()> {
        let vars = VarMap::new();
        let model = model(&vars);
        let numbers = Tensor::new(&[[1u32, 2, 3, 4, 5, 6, 7, 8]], &Device::Cpu)?;
        let gradients = model.forward(&numbers)?.sqr()?.mean_all()?.backward()?;
        for var in vars_by_name(&vars) {
            let gradient = gradients.get(&var).map(|gradient| gradient.abs()?.sum_all());
            let size = gradient.transpose()?.map(|sum| sum.to_scalar::<f32>()).transpose()?;
            assert!(size.is_some_and(|size| size > 0.0), "{var:?}: {size:?}");
        }
        Ok(())
    }
}
