//! A small transformer that predicts the next character. Each layer is a row of the report.

use candle_core::{D, Device, IndexOp, Module, Result, Tensor};
use candle_nn::{Embedding, Init, Linear, VarBuilder, linear_no_bias, ops};
use mlprof_candle::prelude::*;

/// Dimensions of the transformer.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Number of different characters.
    pub vocabulary: usize,
    /// Maximum number of characters in the input.
    pub context: usize,
    /// Number of features per character.
    pub width: usize,
    /// Number of attention heads that share the width.
    pub heads: usize,
    /// Number of blocks of attention and MLP.
    pub blocks: usize,
}

/// A model that maps character numbers `[batch, time]` to scores of the next character `[batch,
/// time, vocabulary]`.
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
    /// Creates the model with the weights of `vb`.
    ///
    /// # Errors
    ///
    /// Returns candle's error for incompatible shapes.
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

    /// Returns the maximum number of characters in the input.
    pub fn context(&self) -> usize {
        self.context
    }
}

/// Embedding initialisation with a small deviation compared to the blocks' outputs. With candle's
/// default deviation of 1, training takes much longer.
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

/// Attention and MLP, each with a normalised input and a residual connection.
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

/// Attention of each character to itself and to earlier characters.
#[derive(Debug)]
struct SelfAttention {
    queries_keys_values: ProfiledLayer<Linear>,
    out: ProfiledLayer<Linear>,
    /// 0 for allowed positions and minus infinity for masked ones.
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
        // `softmax_last_dim` is avoided, because candle has no gradient for it.
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

/// A layer normalisation composed of ops with gradients. `candle_nn::LayerNorm` runs as one fused
/// op without a gradient, so that the layers before it would not learn.
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
