//! Items in macro calls that compile them conditionally.

use proc_macro2::{TokenStream, TokenTree};
use syn::{File, Item};

/// Returns the items in a call of a macro that omits items under a false condition, such as
/// `cfg_if!`.
pub(super) fn conditional_items(tokens: &TokenStream) -> Vec<Vec<Item>> {
    if let Ok(file) = syn::parse2::<File>(tokens.clone()) {
        return vec![file.items];
    }
    let groups = tokens.clone().into_iter().filter_map(|token| match token {
        TokenTree::Group(group) => syn::parse2::<File>(group.stream()).ok(),
        _ => None,
    });
    groups.map(|file| file.items).filter(|items| !items.is_empty()).collect()
}
