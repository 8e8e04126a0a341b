//! Training and text generation of the transformer.

use std::sync::Arc;

use candle_core::{D, DType, Device, IndexOp, Module, Tensor};
use candle_nn::{AdamW, ParamsAdamW, VarMap, loss::cross_entropy, ops::softmax};
use mlprof_candle::prelude::*;
use mlprof_core::profile;
use mlprof_train::{EpochContext, Result};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use rand_distr::Distribution;
use rand_distr::weighted::WeightedIndex;

use crate::transformer::{CharTransformer, Config};

const LEARNING_RATE: f64 = 4e-3;

/// Passages of the text with their characters, and the next character for each of them.
#[derive(Debug, Clone)]
pub struct Passages {
    /// Shape `[batch, time]`.
    pub characters: Tensor,
    /// Shape `[batch, time]`.
    pub next: Tensor,
}

/// Returns a loader of passages from random positions of `text`, which differ in each epoch.
pub fn random_passages(
    text: Vec<u32>,
    context: usize,
    batch_size: usize,
    batches: usize,
) -> impl DataLoader<Passages> {
    let text: Arc<[u32]> = text.into();
    move |epoch: &EpochContext| {
        let mut random = ChaCha8Rng::seed_from_u64(epoch.seed);
        random.set_stream(epoch.epoch as u64);
        let text = text.clone();
        (0..batches).map(move |_| {
            let last = text.len() - context;
            let starts: Vec<_> =
                (0..batch_size).map(|_| (random.next_u64() % last as u64) as usize).collect();
            passages(&text, &starts, context)
        })
    }
}

/// Returns all consecutive passages of `text` in batches. An incomplete passage at the end is left
/// out.
///
/// # Errors
///
/// Returns candle's error.
pub fn all_passages(text: &[u32], context: usize, batch_size: usize) -> Result<Vec<Passages>> {
    let starts: Vec<_> = (0..(text.len() - 1) / context).map(|number| number * context).collect();
    starts.chunks(batch_size).map(|starts| passages(text, starts, context)).collect()
}

fn passages(text: &[u32], starts: &[usize], context: usize) -> Result<Passages> {
    let from = |offset: usize| {
        let numbers = starts.iter().flat_map(|start| &text[start + offset..][..context]);
        let numbers: Vec<u32> = numbers.copied().collect();
        Tensor::from_vec(numbers, (starts.len(), context), &Device::Cpu)
    };
    Ok(Passages { characters: from(0)?, next: from(1)? })
}

/// The transformer with its training state.
#[expect(missing_debug_implementations, reason = "VarMap has none")]
pub struct Learner {
    vars: VarMap,
    net: CharTransformer,
    steps: usize,
}

impl Learner {
    /// Creates an untrained network for a training of `steps` steps. The same seed gives the same
    /// network.
    ///
    /// # Errors
    ///
    /// Returns candle's error.
    pub fn new(config: Config, seed: u64, steps: usize) -> Result<Self> {
        let vars = VarMap::new();
        let vb = seeded_var_builder(&vars, seed, DType::F32, &Device::Cpu);
        let net = CharTransformer::new(config, &vb)?;
        Ok(Self { vars, net, steps })
    }

    /// Returns the number of weights.
    pub fn weights(&self) -> usize {
        vars_by_name(&self.vars).iter().map(|var| var.elem_count()).sum()
    }

    fn loss(&self, passages: &Passages) -> Result<Tensor> {
        let scores = self.net.forward(&passages.characters)?.flatten_to(1)?;
        Ok(cross_entropy(&scores, &passages.next.flatten_all()?)?)
    }

    /// Continues `prompt` by a number of characters. A higher temperature gives more random text.
    ///
    /// # Errors
    ///
    /// Returns candle's error.
    pub fn write(
        &self,
        prompt: &[u32],
        characters: usize,
        temperature: f64,
        seed: u64,
    ) -> Result<Vec<u32>> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut text = prompt.to_vec();
        for _ in 0..characters {
            let _scope = profile!("write_character");
            let seen = &text[text.len().saturating_sub(self.net.context())..];
            let seen = Tensor::new(seen, &Device::Cpu)?.unsqueeze(0)?;
            let scores = self.net.forward(&seen)?.i((0, seen.dim(D::Minus1)? - 1))?;
            let shares = softmax(&(scores / temperature)?, 0)?.to_vec1::<f32>()?;
            text.push(WeightedIndex::new(shares)?.sample(&mut random) as u32);
        }
        Ok(text.split_off(prompt.len()))
    }
}

impl TrainModule for Learner {
    type Batch = Passages;
    type Optimizer = CandleOptimizer<AdamW>;

    fn configure_optimizers(&mut self) -> Result<Optimizers<Self::Optimizer>> {
        let config = ParamsAdamW { lr: LEARNING_RATE, ..Default::default() };
        let optimizer = CandleOptimizer::new(vars_by_name(&self.vars), config)?;
        // The learning rate decays to 0 along half a cosine.
        let steps = self.steps.max(1) as f64;
        let cosine = move |done: usize| {
            let share = (done as f64 / steps).min(1.0);
            LEARNING_RATE * 0.5 * (1.0 + (std::f64::consts::PI * share).cos())
        };
        Ok(Optimizers::new(optimizer).lr_scheduler(LrInterval::Step, cosine))
    }

    fn training_step(&mut self, passages: &Passages, _: &mut TrainerState) -> Result<Tensor> {
        self.loss(passages)
    }

    fn on_train_batch_end(&mut self, trainer: &mut TrainerState) -> Result<()> {
        if let Some(loss) = trainer.loss() {
            trainer.log("train_loss", loss);
        }
        Ok(())
    }

    fn batch_size(&self, passages: &Passages) -> Option<usize> {
        passages.characters.dim(0).ok()
    }

    fn validation_step(&mut self, passages: &Passages, trainer: &mut TrainerState) -> Result<()> {
        let loss = self.loss(passages)?.to_scalar::<f32>()?;
        let weighted = LogOptions::new().weight(passages.characters.dim(0)? as f64);
        trainer.log_with("val_loss", loss.into(), &weighted);
        Ok(())
    }

    fn save_checkpoint(&mut self, path: &std::path::Path) -> Result<()> {
        Ok(self.vars.save(path)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passages_are_followed_by_themselves_one_further() -> Result<()> {
        let text: Vec<u32> = (0..20).collect();
        let all = all_passages(&text, 4, 3)?;
        assert_eq!(all.len(), 2, "four passages, at most three in a batch");
        assert_eq!(all[0].characters.i(2)?.to_vec1::<u32>()?, [8, 9, 10, 11]);
        assert_eq!(all[0].next.i(2)?.to_vec1::<u32>()?, [9, 10, 11, 12]);
        assert_eq!(all[1].characters.dims(), [1, 4]);
        Ok(())
    }

    #[test]
    fn the_last_character_is_only_looked_forward_to() -> Result<()> {
        for starts in 0..16 {
            passages(&(0..20).collect::<Vec<_>>(), &[starts], 4)?;
        }
        Ok(())
    }

    #[test]
    fn a_short_text_is_learned_by_heart() -> Result<()> {
        let text: Vec<u32> = [0, 1, 2, 3].repeat(8);
        let config = Config { vocabulary: 4, context: 8, width: 16, heads: 2, blocks: 1 };
        let mut learner = Learner::new(config, 1, 200)?;
        let mut trainer = Trainer::new().max_epochs(2).seed(1).progress_bar(false);
        let outcome = trainer.fit(&mut learner, &random_passages(text, 8, 8, 100), None)?;
        assert!(outcome.loss.is_some_and(|loss| loss < 0.2), "{outcome:?}");
        let written = learner.write(&[2, 3], 6, 0.1, 1)?;
        assert_eq!(written, [0, 1, 2, 3, 0, 1]);
        assert_eq!(written, learner.write(&[2, 3], 6, 0.1, 1)?);
        Ok(())
    }
}
