//! Registers the metric tuples that burn accepts for a training as profiled metrics.

use burn::train::metric::{Adaptor, Metric, Numeric};
use burn::train::{InferenceStep, LearnerModel, TrainStep};

use super::ProfiledTraining;
use crate::tuples::for_each_tuple;

/// A tuple of one to six numeric metrics for a training.
pub trait MetricTuple<M: LearnerModel> {
    /// Registers all metrics, measured, for training and validation.
    #[doc(hidden)]
    fn register(self, training: ProfiledTraining<M>) -> ProfiledTraining<M>;
}

/// A tuple of one to six text metrics for a training.
pub trait TextMetricTuple<M: LearnerModel> {
    /// Registers all metrics, measured, for training and validation.
    #[doc(hidden)]
    fn register(self, training: ProfiledTraining<M>) -> ProfiledTraining<M>;
}

macro_rules! tuples {
    ($($metric:ident)+) => {
        impl<M: LearnerModel, $($metric),+> MetricTuple<M> for ($($metric,)+)
        where
            $($metric: Metric + Numeric + 'static,
              <M as TrainStep>::Output: Adaptor<$metric::Input>,
              <M as InferenceStep>::Output: Adaptor<$metric::Input>,)+
        {
            #[allow(non_snake_case)]
            fn register(self, training: ProfiledTraining<M>) -> ProfiledTraining<M> {
                let ($($metric,)+) = self;
                $(let training = training
                    .metric_train_numeric($metric.clone())
                    .metric_valid_numeric($metric);)+
                training
            }
        }

        impl<M: LearnerModel, $($metric),+> TextMetricTuple<M> for ($($metric,)+)
        where
            $($metric: Metric + 'static,
              <M as TrainStep>::Output: Adaptor<$metric::Input>,
              <M as InferenceStep>::Output: Adaptor<$metric::Input>,)+
        {
            #[allow(non_snake_case)]
            fn register(self, training: ProfiledTraining<M>) -> ProfiledTraining<M> {
                let ($($metric,)+) = self;
                $(let training = training
                    .metric_train($metric.clone())
                    .metric_valid($metric);)+
                training
            }
        }
    };
}

for_each_tuple!(tuples);
