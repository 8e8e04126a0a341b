//! The scale factor that prevents underflow of 16-bit gradients.

use mlprof_train::{Result, SavedState};

/// Multiplies the loss by a factor before backward, so that small 16-bit gradients do not
/// underflow. It corresponds to PyTorch's `GradScaler` and has the same defaults. Pass it to
/// [`TchOptimizer::grad_scaler`](crate::TchOptimizer::grad_scaler).
///
/// Gradients are divided by the factor before hooks, clipping and numerics profilers read them. The
/// trainer shows the unscaled loss. A step with non-finite gradients is skipped, and the factor is
/// reduced. After many consecutive steps with finite gradients, the factor is increased.
///
/// # Examples
///
/// ```
/// use tch::{Device, nn};
/// use mlprof_tch::{GradScaler, TchOptimizer};
///
/// let store = nn::VarStore::new(Device::Cpu);
/// let _layer = nn::linear(store.root(), 2, 1, Default::default());
/// let scaler = GradScaler::new().init_scale(1024.0);
/// let optimizer = TchOptimizer::new(nn::Sgd::default(), &store, 0.1)?.grad_scaler(scaler);
/// # let _ = optimizer;
/// # Ok::<(), tch::TchError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct GradScaler {
    scale: f64,
    growth_factor: f64,
    backoff_factor: f64,
    growth_interval: usize,
    good_steps: usize,
    skipped_steps: usize,
}

impl Default for GradScaler {
    fn default() -> Self {
        Self::new()
    }
}

impl GradScaler {
    /// Creates a scaler with a factor of 65,536. It halves the factor at each skipped step and
    /// doubles it after 2,000 consecutive other steps.
    pub const fn new() -> Self {
        Self {
            scale: 65_536.0,
            growth_factor: 2.0,
            backoff_factor: 0.5,
            growth_interval: 2000,
            good_steps: 0,
            skipped_steps: 0,
        }
    }

    /// Sets the factor of the first step; 65,536 by default.
    #[must_use]
    pub const fn init_scale(mut self, scale: f64) -> Self {
        self.scale = scale;
        self
    }

    /// Sets the multiplier of the factor after [`growth_interval`](Self::growth_interval) steps; 2
    /// by default.
    #[must_use]
    pub const fn growth_factor(mut self, factor: f64) -> Self {
        self.growth_factor = factor;
        self
    }

    /// Sets the multiplier of the factor after a skipped step; 0.5 by default.
    #[must_use]
    pub const fn backoff_factor(mut self, factor: f64) -> Self {
        self.backoff_factor = factor;
        self
    }

    /// Sets the number of consecutive steps with finite gradients after which the factor grows;
    /// 2,000 by default.
    #[must_use]
    pub const fn growth_interval(mut self, steps: usize) -> Self {
        self.growth_interval = steps;
        self
    }

    /// Returns the factor of the next step.
    pub const fn scale(&self) -> f64 {
        self.scale
    }

    /// Returns the number of skipped steps.
    pub const fn skipped_steps(&self) -> usize {
        self.skipped_steps
    }

    /// Adds the scaler's state to the optimizer's state.
    pub(crate) fn save(&self, state: &mut SavedState) {
        state.set("scaler/scale", self.scale);
        state.set("scaler/good_steps", self.good_steps);
        state.set("scaler/skipped_steps", self.skipped_steps);
    }

    /// Returns a scaler with the state of a checkpoint, or an unchanged one if the checkpoint has
    /// no scaler state.
    pub(crate) fn loaded(&self, state: &SavedState) -> Result<Self> {
        Ok(Self {
            scale: state.get_option("scaler/scale")?.unwrap_or(self.scale),
            good_steps: state.get_option("scaler/good_steps")?.unwrap_or(self.good_steps),
            skipped_steps: state.get_option("scaler/skipped_steps")?.unwrap_or(self.skipped_steps),
            ..self.clone()
        })
    }

    /// Updates the factor after a step. `are_finite` states if all of its gradients were finite.
    pub(crate) fn update(&mut self, are_finite: bool) {
        if !are_finite {
            self.scale *= self.backoff_factor;
            self.good_steps = 0;
            self.skipped_steps += 1;
            return;
        }
        self.good_steps += 1;
        if self.good_steps >= self.growth_interval {
            self.scale *= self.growth_factor;
            self.good_steps = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_follows_the_gradients_as_pytorchs_does() {
        let mut scaler = GradScaler::new().init_scale(8.0).growth_interval(2);
        let steps = [true, true, false, true, false, true, true];
        let scales = steps.map(|are_finite| {
            scaler.update(are_finite);
            scaler.scale()
        });
        assert_eq!(scales, [8.0, 16.0, 8.0, 8.0, 4.0, 4.0, 8.0]);
        assert_eq!(scaler.skipped_steps(), 2);
        let mut state = SavedState::new();
        scaler.save(&mut state);
        let new = GradScaler::new().growth_interval(2);
        assert_eq!(new.loaded(&state).expect("its own"), scaler);
        assert_eq!(new.loaded(&SavedState::new()).expect("none"), new);
    }
}
