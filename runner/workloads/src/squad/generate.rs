//! A set in the form of SQuAD for which nothing has to be fetched: passages about towns that do
//! not exist, and questions about one of the facts in each.
//!
//! Names, years, numbers and dates of the evaluation questions never stand in the training
//! passages, but the parts they are made of do. Two of the relations ask for a person, so that
//! the kind of an answer alone does not tell it.

use warpforge_pt2::random::Stream;

use super::{Answer, Article, Dataset, Paragraph, Question, vocabulary};

/// How much is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Training paragraphs, with two questions each.
    pub paragraphs: usize,
    /// Evaluation questions, at least; every fact of a paragraph is asked for.
    pub questions: usize,
}

impl Default for Size {
    fn default() -> Self {
        Self { paragraphs: 1000, questions: 1000 }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    pub train: Dataset,
    pub dev: Dataset,
    /// WordPiece tokens in the order of their numbers, always [`Generated::VOCABULARY`] of them.
    pub vocab: Vec<String>,
}

impl Generated {
    /// Fixed, as a model's embedding has it: what the text does not need is filled with unused
    /// tokens, as in BERT's own vocabulary.
    pub const VOCABULARY: usize = 448;
    /// Tokens of the longest question with its passage, rounded up.
    pub const LENGTH: usize = 44;
}

const FACTS: usize = 4;
const ASKED_IN_TRAINING: usize = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Place,
    Person,
    River,
    Year,
    Number,
    Date,
}

/// A statement and a question; `{town}` and `{answer}` are filled in.
struct Relation {
    answer: Kind,
    statement: &'static str,
    question: &'static str,
}

const fn relation(answer: Kind, statement: &'static str, question: &'static str) -> Relation {
    Relation { answer, statement, question }
}

const RELATIONS: [Relation; 7] = [
    relation(Kind::Person, "{town} was founded by {answer}.", "Who founded {town}?"),
    relation(Kind::Person, "The mayor is {answer}.", "Who is the mayor of {town}?"),
    relation(Kind::Year, "{town} was built in {answer}.", "When was {town} built?"),
    relation(Kind::River, "{town} lies on the river {answer}.", "Which river is {town} on?"),
    relation(Kind::Number, "{town} has {answer} houses.", "How many houses are in {town}?"),
    relation(Kind::Date, "The fair is on {answer}.", "Which day is the fair in {town}?"),
    relation(Kind::Place, "The twin town is {answer}.", "What is the twin town of {town}?"),
];

const PLACES: [&str; 2] = [
    "bran cal dun fal glen har kel lin mar nor oak pen rad sel tor win ash bel cor elm fen hol kir \
     mil",
    "burg by dale ford ham holm mouth port stad ton wick worth",
];
const PERSONS: [&str; 2] = [
    "ben clem con dor fred gus hans hil jos jul kon leo lud mat nat pol rup sig tam val vik wil \
     zeb gret",
    "bald dolf gard ko la mar mund na ric sa vin wyn",
];
const RIVERS: [&str; 2] = [
    "bav bin cin der dov ger jor lav lug mez mos nar niv pev rin sav sul tav tem tib vez vol yar \
     zab",
    "bra chu dra fell ga ka lo mere ne ra ta wen",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Which half of the data something is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Train,
    Dev,
}

/// Random numbers one after the other.
struct Draw {
    stream: Stream,
    next: u64,
}

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.next += 1;
        self.stream.bits(self.next - 1) as usize % bound.max(1)
    }

    /// Some of the numbers below `bound`, in random order.
    fn some(&mut self, count: usize, bound: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..bound).collect();
        for at in 0..count.min(bound) {
            let other = at + self.below(bound - at);
            all.swap(at, other);
        }
        all.truncate(count);
        all
    }

    /// A thing of a kind that belongs to a part of the data.
    fn thing(&mut self, kind: Kind, part: Part) -> String {
        loop {
            let (text, mark) = match kind {
                Kind::Place => self.name(PLACES),
                Kind::Person => self.name(PERSONS),
                Kind::River => self.name(RIVERS),
                Kind::Year => self.number(1100, 2000),
                Kind::Number => self.number(100, 1000),
                Kind::Date => {
                    let (day, month) = (1 + self.below(28), self.below(MONTHS.len()));
                    (format!("{day} {}", MONTHS[month]), day + month)
                }
            };
            // The last two digits of a number are a token: seven has no divisor in common with
            // a hundred, so both parts have them all.
            let share = if matches!(kind, Kind::Year | Kind::Number) { 7 } else { 4 };
            if (mark % share == 0) == (part == Part::Dev) {
                return text;
            }
        }
    }

    fn name(&mut self, [stems, endings]: [&str; 2]) -> (String, usize) {
        let (stems, endings): (Vec<&str>, Vec<&str>) =
            (stems.split(' ').collect(), endings.split(' ').collect());
        let (stem, ending) = (self.below(stems.len()), self.below(endings.len()));
        let mut name = format!("{}{}", stems[stem], endings[ending]);
        name[..1].make_ascii_uppercase();
        (name, stem + ending)
    }

    fn number(&mut self, from: usize, to: usize) -> (String, usize) {
        let number = from + self.below(to - from);
        (number.to_string(), number)
    }
}

/// Makes a set; the same seed and size make the same.
pub fn generate(seed: u64, size: Size) -> Generated {
    let draw = |step| Draw { stream: Stream { seed, step, ordinal: 0 }, next: 0 };
    let (mut train, mut dev) = (Vec::new(), Vec::new());
    let mut numbers = draw(0);
    for at in 0..size.paragraphs {
        let id = format!("train-{at:05}");
        train.push(paragraph(&mut numbers, Part::Train, &id, ASKED_IN_TRAINING));
    }
    let mut numbers = draw(1);
    for at in 0..size.questions.div_ceil(FACTS) {
        dev.push(paragraph(&mut numbers, Part::Dev, &format!("dev-{at:05}"), FACTS));
    }
    let vocab = vocabulary::build(&train, Generated::VOCABULARY);
    let set = |paragraphs| Dataset {
        version: "1.1".into(),
        data: vec![Article { title: "Towns".into(), paragraphs }],
    };
    Generated { train: set(train), dev: set(dev), vocab }
}

fn paragraph(draw: &mut Draw, part: Part, id: &str, asked: usize) -> Paragraph {
    let town = draw.thing(Kind::Place, part);
    let mut things = vec![town.clone()];
    let (mut context, mut facts) = (String::new(), Vec::new());
    let mut subject = town.as_str();
    for relation in draw.some(FACTS, RELATIONS.len()) {
        let relation = &RELATIONS[relation];
        let answer = loop {
            let answer = draw.thing(relation.answer, part);
            if !things.contains(&answer) {
                break answer;
            }
        };
        things.push(answer.clone());
        let statement = relation.statement.replace("{town}", subject);
        // Named once, where it is the subject.
        if relation.statement.starts_with("{town}") {
            subject = "It";
        }
        if !context.is_empty() {
            context.push(' ');
        }
        // All of it is ASCII, so bytes are characters.
        let answer_start = context.len() + statement.find("{answer}").unwrap_or(0);
        context.push_str(&statement.replace("{answer}", &answer));
        facts.push((relation, Answer { text: answer, answer_start }));
    }
    let chosen = draw.some(asked, FACTS);
    let question = |(at, fact): (usize, &usize)| {
        let (relation, answer) = &facts[*fact];
        Question {
            id: format!("{id}-{at}"),
            question: relation.question.replace("{town}", &town),
            answers: vec![answer.clone()],
        }
    };
    Paragraph { qas: chosen.iter().enumerate().map(question).collect(), context }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::squad::{Lengths, Mode, Tokenizer, features};

    #[test]
    fn a_set_is_read_back_and_no_answer_is_known_from_training() {
        let made = generate(5, Size::default());
        for set in [&made.train, &made.dev] {
            let text = serde_json::to_string(set).unwrap();
            assert_eq!(Dataset::parse(&text).unwrap(), *set);
        }
        assert_eq!(made.train.questions().count(), 2000);
        assert!(made.dev.questions().count() >= 1000);
        let answers = |set: &Dataset| -> HashSet<String> {
            set.questions().map(|(_, question)| question.answers[0].text.clone()).collect()
        };
        let (train, dev) = (answers(&made.train), answers(&made.dev));
        assert!(train.is_disjoint(&dev), "{:?}", train.intersection(&dev).next());
        // Nor is any word of a name.
        let words: HashSet<&str> =
            made.train.paragraphs().flat_map(|p| p.context.split(' ')).collect();
        let name = |answer: &&String| answer.starts_with(|c: char| c.is_ascii_uppercase());
        assert!(dev.iter().filter(name).all(|answer| !words.contains(answer.as_str())));
        assert_eq!(generate(5, Size::default()), made);
        assert_ne!(generate(6, Size::default()).train, made.train);
    }

    /// Every question with its passage is one window, and none has a token that is not known.
    #[test]
    fn the_vocabulary_fits_the_text() {
        let made = generate(5, Size::default());
        assert_eq!(made.vocab.len(), Generated::VOCABULARY);
        let tokenizer = Tokenizer::from_vocab(&made.vocab).unwrap();
        let lengths = Lengths { max_length: Generated::LENGTH, doc_stride: 16, max_question: 16 };
        let unknown = made.vocab.iter().position(|token| token == "[UNK]").unwrap() as u32;
        for set in [&made.train, &made.dev] {
            let features = features(set, &tokenizer, &lengths, Mode::Train).unwrap();
            assert_eq!(features.len(), set.questions().count());
            assert!(features.iter().all(|f| f.start > 0 && !f.ids.contains(&unknown)));
        }
    }
}
