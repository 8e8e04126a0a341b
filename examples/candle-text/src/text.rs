//! A text to learn from, written by a small grammar: so regular that a small network can learn much
//! of it in seconds, so varied that there is something to learn.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// About how long the text is, in characters.
const LENGTH: usize = 24_000;
/// The text is always the same; what a program is told as seed is for its weights and batches.
const SEED: u64 = 7;

/// `{name}` stands for one of the phrases of that name.
const RULES: &[(&str, &[&str])] = &[
    (
        "sentence",
        &[
            "{time} the {quality} {person} {carried} {load} {where}.",
            "the {person} and the {animal} {walked} {where}.",
            "\"{question}?\" asked the {person}.",
            "\"{answer}\", said the {animal}, and {did}.",
            "{weather}, and {weather}.",
            "but the {quality} {animal} {did}, for {reason}.",
            "nobody {where} knew why the {person} {did}.",
            "{time} {weather}; {time} the {animal} {walked} {where}.",
        ],
    ),
    ("time", &["in the morning", "before noon", "at dusk", "late that night", "on the third day"]),
    ("quality", &["old", "patient", "hungry", "cheerful", "silent", "clumsy", "brave", "tired"]),
    ("person", &["miller", "ferryman", "baker", "lighthouse keeper", "weaver", "clockmaker"]),
    ("animal", &["goat", "heron", "mule", "fox", "tortoise", "crow", "otter"]),
    ("carried", &["carried", "dragged", "rolled", "lost", "found", "sold"]),
    (
        "load",
        &[
            "a sack of rye",
            "two barrels of oil",
            "a broken clock",
            "a basket of plums",
            "the blue lantern",
            "seven loaves of bread",
        ],
    ),
    ("walked", &["walked", "hurried", "stumbled", "danced", "came back", "waited"]),
    (
        "where",
        &[
            "over the stone bridge",
            "down to the river",
            "along the harbour wall",
            "behind the mill",
            "through the wet grass",
            "up the narrow stairs",
        ],
    ),
    (
        "question",
        &[
            "who left the gate open",
            "is there any {bread} left",
            "how far is it to the {harbour}",
            "have you seen my {quality} {animal}",
        ],
    ),
    ("bread", &["bread", "flour", "oil", "honey"]),
    ("harbour", &["harbour", "mill", "lighthouse", "market"]),
    (
        "answer",
        &[
            "not today",
            "ask the {person}",
            "it was the {animal}",
            "first we need {load}",
            "that is what the {person} says",
        ],
    ),
    (
        "did",
        &[
            "laughed",
            "went to sleep",
            "counted the stars",
            "shook its head",
            "looked at the water",
            "said nothing more",
        ],
    ),
    (
        "weather",
        &[
            "the wind turned",
            "it rained for an hour",
            "fog came up from the river",
            "the sun stood over the mill",
            "snow lay on the bridge",
        ],
    ),
    (
        "reason",
        &[
            "{weather}",
            "there was no {bread} left",
            "the {person} had lost {load}",
            "the way was long",
        ],
    ),
];

/// The whole text.
pub fn tale() -> String {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mut text = String::new();
    while text.len() < LENGTH {
        let sentences = 3 + below(&mut random, 4);
        let paragraph: Vec<_> =
            (0..sentences).map(|_| capitalized(&phrase("sentence", &mut random))).collect();
        text.push_str(&paragraph.join(" "));
        text.push('\n');
    }
    text
}

/// One of the phrases of a name, with everything in it filled in.
fn phrase(name: &str, random: &mut ChaCha8Rng) -> String {
    let Some((_, phrases)) = RULES.iter().find(|(rule, _)| *rule == name) else {
        return name.to_owned();
    };
    let mut rest = phrases[below(random, phrases.len())];
    let mut text = String::new();
    while let Some((before, after)) = rest.split_once('{') {
        let (inner, after) = after.split_once('}').unwrap_or((after, ""));
        text.push_str(before);
        text.push_str(&phrase(inner, random));
        rest = after;
    }
    text + rest
}

fn below(random: &mut ChaCha8Rng, limit: usize) -> usize {
    (random.next_u64() % limit as u64) as usize
}

/// With the first letter large, also behind a quotation mark.
fn capitalized(sentence: &str) -> String {
    let first = sentence.find(char::is_alphabetic).unwrap_or(0);
    let (before, rest) = sentence.split_at(first);
    let (letter, rest) = rest.split_at(rest.chars().next().map_or(0, char::len_utf8));
    format!("{before}{}{rest}", letter.to_uppercase())
}

/// The characters of a text, numbered.
#[derive(Debug, Clone)]
pub struct Vocabulary {
    characters: Vec<char>,
}

impl Vocabulary {
    /// All characters of `text`, in their order in Unicode.
    pub fn of(text: &str) -> Self {
        let mut characters: Vec<char> = text.chars().collect();
        characters.sort_unstable();
        characters.dedup();
        Self { characters }
    }

    /// How many there are.
    pub fn size(&self) -> usize {
        self.characters.len()
    }

    /// The numbers of a text's characters, without those that are not known.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let number = |character| self.characters.binary_search(&character).ok();
        text.chars().filter_map(number).map(|index| index as u32).collect()
    }

    /// The text of these numbers.
    pub fn decode(&self, numbers: &[u32]) -> String {
        numbers.iter().filter_map(|&number| self.characters.get(number as usize)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_always_the_same_and_complete() {
        let text = tale();
        assert_eq!(text, tale());
        assert!((LENGTH..LENGTH + 1000).contains(&text.len()), "{}", text.len());
        assert!(!text.contains(['{', '}']), "everything is filled in");
        assert!(text.lines().all(|line| line.ends_with('.')), "sentences are whole");
    }

    #[test]
    fn every_phrase_names_rules_that_there_are() {
        let names: Vec<_> = RULES.iter().map(|(name, _)| *name).collect();
        for phrase in RULES.iter().flat_map(|(_, phrases)| *phrases) {
            for inner in phrase.split('{').skip(1).filter_map(|rest| rest.split_once('}')) {
                assert!(names.contains(&inner.0), "{phrase}");
            }
        }
    }

    #[test]
    fn characters_become_numbers_and_back() {
        let vocabulary = Vocabulary::of("a cab");
        assert_eq!(vocabulary.size(), 4);
        assert_eq!(vocabulary.encode("abc d"), [1, 2, 3, 0]);
        assert_eq!(vocabulary.decode(&[3, 1, 2]), "cab");
    }

    #[test]
    fn sentences_begin_large() {
        assert_eq!(capitalized("the fog."), "The fog.");
        assert_eq!(capitalized("\"not today\", said"), "\"Not today\", said");
        assert_eq!(capitalized(""), "");
    }
}
