//! Converts the metric tuples that burn accepts for an evaluation into profiled metrics.

use burn::train::metric::{Adaptor, Metric, Numeric};
use burn::train::{
    EvalMetricRegistration, EvalTextMetricRegistration, EvaluatorComponentTypesMarker,
    InferenceStep,
};

use super::ModelUnderTest;
use crate::metric::ProfiledMetric;
use crate::test_model::TestModel;
use crate::tuples::for_each_tuple;

/// A tuple of one to six metrics for an evaluation.
pub trait TestMetricTuple<M: ModelUnderTest> {
    /// The tuple of profiled metrics.
    #[doc(hidden)]
    type Measured: EvalMetricRegistration<EvaluatorComponentTypesMarker<TestModel<M>>>;

    /// Wraps all metrics in profiled metrics.
    #[doc(hidden)]
    fn measured(self) -> Self::Measured;
}

/// A tuple of one to six text metrics for an evaluation.
pub trait TestTextMetricTuple<M: ModelUnderTest> {
    /// The tuple of profiled metrics.
    #[doc(hidden)]
    type Measured: EvalTextMetricRegistration<EvaluatorComponentTypesMarker<TestModel<M>>>;

    /// Wraps all metrics in profiled metrics.
    #[doc(hidden)]
    fn measured(self) -> Self::Measured;
}

macro_rules! tuples {
    ($($metric:ident)+) => {
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

for_each_tuple!(tuples);
