//! What the plugins of frameworks whose layers are traits have in common: `.profile_layer(path)`.

/// Makes `ModulePath`, the traits with `.profile_layer(path)`, and the layers that they return,
/// `ProfiledLayer` and `ProfiledLayerT`. For plugins, not for programs.
///
/// A macro, because a plugin may give its framework's traits only to types of its own: it names the
/// traits, the types of their forwards, the calls for a wrapped layer and for its output, and the
/// function that names a type. The forwards of recurrent layers differ: a plugin writes them by
/// `ProfiledLayer::measure`.
///
/// The documentation comes from the plugin, for its examples are in the framework's words.
#[doc(hidden)]
#[macro_export]
macro_rules! layer_wrappers {
    (
        $(#[$module_doc:meta])* ProfileLayerExt for $Module:ident;
        $(#[$module_t_doc:meta])* ProfileLayerTExt for $ModuleT:ident;
        $(#[$rnn_doc:meta])* ProfileRnnExt for $Rnn:ident;
        $(#[$profiled_doc:meta])* ProfiledLayer, announced by $announce:expr, named by $type_name:ident,
            from $Tensor:ty => $Output:ty, observed by $observe:expr;
    ) => {
        /// Where a layer is in its model: a text such as `"encoder.head"`, or what the framework made
        /// the layer's variables with.
        pub trait ModulePath {
            /// The names along the way, joined by dots as in the names of variables.
            fn path(&self) -> String;
        }

        impl ModulePath for str {
            fn path(&self) -> String {
                self.to_owned()
            }
        }

        impl ModulePath for String {
            fn path(&self) -> String {
                self.clone()
            }
        }

        impl<P: ModulePath + ?Sized> ModulePath for &P {
            fn path(&self) -> String {
                (**self).path()
            }
        }

        /// Keeps other crates from implementing the extension traits.
        mod sealed {
            use super::{$Module, $ModuleT, $Rnn};

            pub trait Layer {}
            impl<M: $Module> Layer for M {}
            pub trait LayerT {}
            impl<M: $ModuleT> LayerT for M {}
            pub trait Recurrent {}
            impl<M: $Rnn> Recurrent for M {}
        }

        $(#[$module_doc])*
        pub trait ProfileLayerExt: $Module + Sized + sealed::Layer {
            /// The same layer, each of its forwards measured as `[module]{type}: {path}` by the active
            /// profiler.
            #[track_caller]
            fn profile_layer(self, path: impl ModulePath) -> ProfiledLayer<Self> {
                ProfiledLayer::new(self, path)
            }
        }

        impl<M: $Module> ProfileLayerExt for M {}

        $(#[$module_t_doc])*
        pub trait ProfileLayerTExt: $ModuleT + Sized + sealed::LayerT {
            /// The same layer, each of its forwards measured as `[module]{type}: {path}` by the active
            /// profiler.
            #[track_caller]
            fn profile_layer_t(self, path: impl ModulePath) -> ProfiledLayerT<Self> {
                ProfiledLayerT(ProfiledLayer::new(self, path))
            }
        }

        impl<M: $ModuleT> ProfileLayerTExt for M {}

        $(#[$rnn_doc])*
        pub trait ProfileRnnExt: $Rnn + Sized + sealed::Recurrent {
            /// The same layer, each of its forwards measured as `[module]{type}: {path}` by the active
            /// profiler.
            #[track_caller]
            fn profile_layer(self, path: impl ModulePath) -> ProfiledLayer<Self> {
                ProfiledLayer::new(self, path)
            }
        }

        impl<M: $Rnn> ProfileRnnExt for M {}

        $(#[$profiled_doc])*
        #[derive(Debug, Clone)]
        pub struct ProfiledLayer<M> {
            layer: M,
            action: $crate::Action,
        }

        impl<M> ProfiledLayer<M> {
            /// A layer of any kind at `path`: use [`measure`](Self::measure) if none of the framework's
            /// traits has its forward.
            #[track_caller]
            pub fn new(layer: M, path: impl ModulePath) -> Self {
                $announce;
                let action = $crate::Action::module(&$type_name::<M>(), &path.path());
                $crate::hook::declare_module_place(action, ::std::panic::Location::caller());
                Self { layer, action }
            }

            /// Runs a forward of any form under this layer's name.
            #[inline]
            pub fn measure<T>(&self, forward: impl FnOnce(&M) -> T) -> T {
                let _scope = $crate::ActiveScope::open(|| self.action, $crate::Interest::ACTIONS);
                forward(&self.layer)
            }

            /// As [`measure`](Self::measure), of a forward that makes one tensor of another: a
            /// [`NumericsProfiler`]($crate::NumericsProfiler) reads the numbers of both.
            ///
            /// # Errors
            ///
            /// Those of `forward`, if it returns any.
            #[inline]
            pub fn measure_output(
                &self,
                input: &$Tensor,
                forward: impl FnOnce(&M) -> $Output,
            ) -> $Output {
                let output = self.measure(forward);
                $observe(self.action, input, &output);
                output
            }

            /// The layer inside.
            pub fn into_inner(self) -> M {
                self.layer
            }
        }

        impl<M: $Module> $Module for ProfiledLayer<M> {
            #[inline]
            fn forward(&self, input: &$Tensor) -> $Output {
                self.measure_output(input, |layer| layer.forward(input))
            }
        }

        impl<M: $ModuleT> $ModuleT for ProfiledLayerT<M> {
            #[inline]
            fn forward_t(&self, input: &$Tensor, train: bool) -> $Output {
                self.0.measure_output(input, |layer| layer.forward_t(input, train))
            }
        }

        impl<M> ::std::ops::Deref for ProfiledLayer<M> {
            type Target = M;

            fn deref(&self) -> &M {
                &self.layer
            }
        }

        impl<M> ::std::ops::DerefMut for ProfiledLayer<M> {
            fn deref_mut(&mut self) -> &mut M {
                &mut self.layer
            }
        }

        /// A layer that differs between training and evaluation, measured: what
        /// [`profile_layer_t`](ProfileLayerTExt::profile_layer_t) makes. A type of its own, since a
        /// layer's type may have both traits.
        #[derive(Debug, Clone)]
        pub struct ProfiledLayerT<M>(ProfiledLayer<M>);

        impl<M> ProfiledLayerT<M> {
            /// The layer inside.
            pub fn into_inner(self) -> M {
                self.0.into_inner()
            }
        }

        impl<M> ::std::ops::Deref for ProfiledLayerT<M> {
            type Target = M;

            fn deref(&self) -> &M {
                &self.0
            }
        }

        impl<M> ::std::ops::DerefMut for ProfiledLayerT<M> {
            fn deref_mut(&mut self) -> &mut M {
                &mut self.0
            }
        }
    };
}
