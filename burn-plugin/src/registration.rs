//! Tuples of metrics, as burn takes them, registered as measured ones.

use burn::train::metric::{Adaptor, Metric, Numeric};
use burn::train::{
    EvalMetricRegistration, EvalTextMetricRegistration, EvaluatorBuilder,
    EvaluatorComponentTypesMarker, InferenceStep, LearnerModel, TrainStep,
};

use crate::evaluation::ModelUnderTest;
use crate::metric::ProfiledMetric;
use crate::test_model::TestModel;
use crate::training::ProfiledTraining;

/// A tuple of one to six numeric metrics for a training.
pub trait MetricTuple<M: LearnerModel> {
    /// Registers all of them, measured, for training and validation.
    fn register(self, training: ProfiledTraining<M>) -> ProfiledTraining<M>;
}

/// A tuple of one to six text metrics for a training.
pub trait TextMetricTuple<M: LearnerModel> {
    /// Registers all of them, measured, for training and validation.
    fn register(self, training: ProfiledTraining<M>) -> ProfiledTraining<M>;
}

pub(crate) type TestBuilder<M> = EvaluatorBuilder<EvaluatorComponentTypesMarker<TestModel<M>>>;

/// A tuple of one to six metrics for an evaluation.
pub trait TestMetricTuple<M: ModelUnderTest> {
    /// The same metrics, measured.
    type Measured: EvalMetricRegistration<EvaluatorComponentTypesMarker<TestModel<M>>>;

    /// Measures all of them.
    fn measured(self) -> Self::Measured;
}

/// A tuple of one to six text metrics for an evaluation.
pub trait TestTextMetricTuple<M: ModelUnderTest> {
    /// The same metrics, measured.
    type Measured: EvalTextMetricRegistration<EvaluatorComponentTypesMarker<TestModel<M>>>;

    /// Measures all of them.
    fn measured(self) -> Self::Measured;
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

        impl<M: ModelUnderTest, $($metric),+> TestMetricTuple<M> for ($($metric,)+)
        where
            $($metric: Metric + Numeric + 'static,
              <M as InferenceStep>::Output: Adaptor<$metric::Input>,)+
        {
            type Measured = ($(ProfiledMetric<$metric>,)+);

            #[allow(non_snake_case)]
            fn measured(self) -> Self::Measured {
                let ($($metric,)+) = self;
                ($(ProfiledMetric::new($metric),)+)
            }
        }

        impl<M: ModelUnderTest, $($metric),+> TestTextMetricTuple<M> for ($($metric,)+)
        where
            $($metric: Metric + 'static,
              <M as InferenceStep>::Output: Adaptor<$metric::Input>,)+
        {
            type Measured = ($(ProfiledMetric<$metric>,)+);

            #[allow(non_snake_case)]
            fn measured(self) -> Self::Measured {
                let ($($metric,)+) = self;
                ($(ProfiledMetric::new($metric),)+)
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
