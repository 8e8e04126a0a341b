//! Shared code for plugins of frameworks whose layers are traits: `.profile_layer(path)`.

/// Defines `ModulePath`, the traits with `.profile_layer(path)`, and the layers that these return:
/// `ProfiledLayer` and `ProfiledLayerT`. This macro is for plugins, not for programs.
///
/// A macro, because a plugin may give its framework's traits only to types of its own: it names the
/// traits, the types of their forwards, the calls for a wrapped layer and for its output, and the
/// function that names a type. The forwards of recurrent layers differ: a plugin writes them by
/// `ProfiledLayer::measure`.
///
/// The plugin supplies the documentation, because the examples depend on the framework.
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
        /// Location of a layer in its model. It is a text such as `"encoder.head"`, or the
        /// framework's value from which the layer's variables were created.
        pub trait ModulePath {
            /// Returns the path as names joined by dots, as in variable names.
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

        /// Prevents other crates from implementing the extension traits.
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
            /// Wraps the layer so that the active profiler measures each forward pass as
            /// `[module]{type}: {path}`.
            #[track_caller]
            fn profile_layer(self, path: impl ModulePath) -> ProfiledLayer<Self> {
                ProfiledLayer::new(self, path)
            }
        }

        impl<M: $Module> ProfileLayerExt for M {}

        $(#[$module_t_doc])*
        pub trait ProfileLayerTExt: $ModuleT + Sized + sealed::LayerT {
            /// Wraps the layer so that the active profiler measures each forward pass as
            /// `[module]{type}: {path}`.
            #[track_caller]
            fn profile_layer_t(self, path: impl ModulePath) -> ProfiledLayerT<Self> {
                ProfiledLayerT(ProfiledLayer::new(self, path))
            }
        }

        impl<M: $ModuleT> ProfileLayerTExt for M {}

        $(#[$rnn_doc])*
        pub trait ProfileRnnExt: $Rnn + Sized + sealed::Recurrent {
            /// Wraps the layer so that the active profiler measures each forward pass as
            /// `[module]{type}: {path}`.
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
            /// Wraps a layer of any kind at `path`. Use [`measure`](Self::measure) if its forward
            /// method is not part of one of the framework's traits.
            #[track_caller]
            pub fn new(layer: M, path: impl ModulePath) -> Self {
                $announce;
                let action = $crate::Action::module(&$type_name::<M>(), &path.path());
                $crate::hook::declare_module_place(action, ::std::panic::Location::caller());
                Self { layer, action }
            }

            /// Runs `forward` on the layer and measures it under the layer's name.
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

            /// Returns the wrapped layer.
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

        /// Measured layer that behaves differently in training and evaluation, returned by
        /// [`profile_layer_t`](ProfileLayerTExt::profile_layer_t). It is a separate type because a
        /// layer may implement both traits.
        #[derive(Debug, Clone)]
        pub struct ProfiledLayerT<M>(ProfiledLayer<M>);

        impl<M> ProfiledLayerT<M> {
            /// Returns the wrapped layer.
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
