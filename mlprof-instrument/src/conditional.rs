//! Items that a macro leaves out where a condition does not hold.

use proc_macro2::{TokenStream, TokenTree};
use syn::{File, Item};

/// The items in a macro that leaves out those whose condition does not hold: `cfg_if!` and its like.
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
