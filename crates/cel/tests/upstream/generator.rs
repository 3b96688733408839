//! Random expressions from a typed grammar that sometimes breaks the types.

use atoll_upstream::SeededRandom;

pub struct Generator(SeededRandom);

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Bool,
    Int,
    Double,
    Text,
    Numbers,
    Texts,
    Items,
    Map,
}

const KINDS: [Kind; 8] =
    [Kind::Bool, Kind::Int, Kind::Double, Kind::Text, Kind::Numbers, Kind::Texts, Kind::Items, Kind::Map];

impl Generator {
    pub fn new(seed: u64) -> Generator {
        Generator(SeededRandom::new(seed))
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0.below(limit)
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        self.0.pick(choices)
    }

    /// Generates an expression of any type.
    pub fn expression(&mut self) -> String {
        let depth = 1 + self.below(4);
        let kind = if self.below(2) == 0 { Kind::Bool } else { self.pick(&KINDS) };
        self.of(kind, depth, &mut Vec::new())
    }

    /// Generates an expression with an insertion, a deletion or a truncation.
    pub fn malformed(&mut self) -> String {
        const ADDED: [&str; 24] = [
            "(", ")", ",", ".", "+", "'", "[", "}", "$", "?", ":", "x", "1", " in ", " && ", "{", "]", "-",
            "!", " ", "=", "\"", "..", " for ",
        ];
        let text = self.expression();
        let mut characters: Vec<String> = text.chars().map(String::from).collect();
        for _ in 0..=self.below(2) {
            let index = self.below(characters.len().max(1));
            match self.below(4) {
                0 if characters.len() > 1 => {
                    characters.remove(index);
                }
                1 | 2 => characters.insert(index, self.pick(&ADDED).to_owned()),
                _ => characters.truncate(index.max(1)),
            }
        }
        characters.concat()
    }

    /// Generates an expression of a type, sometimes through `dyn` or another construct that hides the type.
    fn of(&mut self, kind: Kind, depth: usize, scope: &mut Vec<(String, Kind)>) -> String {
        let text = self.typed(kind, depth, scope);
        match self.below(45) {
            0 => format!("dyn({text})"),
            1 => format!("optional.of({text}).value()"),
            2 => format!("[{text}][0]"),
            3 => format!("{{'k': {text}}}.k"),
            4 => format!("[{text}][?0].orValue({text})"),
            5 => format!("optional.of({text}).optMap(o, o).orValue({text})"),
            _ => text,
        }
    }

    fn typed(&mut self, kind: Kind, depth: usize, scope: &mut Vec<(String, Kind)>) -> String {
        // Sometimes use another type.
        let kind = if self.below(60) == 0 { self.pick(&KINDS) } else { kind };
        let known: Vec<String> =
            scope.iter().filter(|(_, own)| *own == kind).map(|(name, _)| name.clone()).collect();
        if !known.is_empty() && self.below(3) == 0 {
            let index = self.below(known.len());
            return known[index].clone();
        }
        if depth == 0 {
            return self.leaf(kind);
        }
        let deeper = depth - 1;
        if self.below(5) == 0
            && let Some(text) = self.library(kind, deeper, scope)
        {
            return text;
        }
        if self.below(12) == 0 {
            let (condition, yes, no) = (
                self.of(Kind::Bool, deeper, scope),
                self.of(kind, deeper, scope),
                self.of(kind, deeper, scope),
            );
            return format!("({condition} ? {yes} : {no})");
        }
        match kind {
            Kind::Bool => self.condition(deeper, scope),
            Kind::Int => match self.below(8) {
                0 => self.leaf(kind),
                1 => format!(
                    "size({})",
                    self.any_of(&[Kind::Text, Kind::Numbers, Kind::Texts, Kind::Map], deeper, scope)
                ),
                2 => {
                    format!("{}.size()", self.any_of(&[Kind::Text, Kind::Texts, Kind::Items], deeper, scope))
                }
                3 => format!("{}[{}]", self.of(Kind::Numbers, deeper, scope), self.below(3)),
                4 => format!("int({})", self.any_of(&[Kind::Double, Kind::Int], deeper, scope)),
                5 => format!("{}[0].port", self.of(Kind::Items, deeper, scope)),
                _ => {
                    let operator = self.pick(&["+", "-", "*", "/", "%"]);
                    format!("({} {operator} {})", self.of(kind, deeper, scope), self.of(kind, deeper, scope))
                }
            },
            Kind::Double => match self.below(3) {
                0 => format!("double({})", self.of(Kind::Int, deeper, scope)),
                1 => self.leaf(kind),
                _ => {
                    let operator = self.pick(&["+", "-", "*", "/"]);
                    format!("({} {operator} {})", self.of(kind, deeper, scope), self.of(kind, deeper, scope))
                }
            },
            Kind::Text => match self.below(6) {
                0 => format!(
                    "string({})",
                    self.any_of(&[Kind::Int, Kind::Bool, Kind::Double, Kind::Text], deeper, scope)
                ),
                1 => format!("{}[{}]", self.of(Kind::Texts, deeper, scope), self.below(3)),
                2 => {
                    format!("{}['{}']", self.of(Kind::Map, deeper, scope), self.pick(&["app", "tier", "no"]))
                }
                3 => format!(
                    "{}[?'{}'].orValue({})",
                    self.of(Kind::Map, deeper, scope),
                    self.pick(&["app", "no"]),
                    self.of(kind, deeper, scope)
                ),
                4 => self.leaf(kind),
                _ => format!("({} + {})", self.of(kind, deeper, scope), self.of(kind, deeper, scope)),
            },
            Kind::Numbers | Kind::Texts => self.list(kind, deeper, scope),
            Kind::Items => match self.below(2) {
                0 => self.leaf(kind),
                _ => {
                    let range = self.of(kind, deeper, scope);
                    let name = format!("i{}", scope.len());
                    scope.push((format!("{name}.port"), Kind::Int));
                    scope.push((format!("{name}.name"), Kind::Text));
                    let predicate = self.of(Kind::Bool, deeper, scope);
                    scope.truncate(scope.len() - 2);
                    format!("{range}.filter({name}, {predicate})")
                }
            },
            Kind::Map => match self.below(3) {
                0 => self.leaf(kind),
                1 => format!(
                    "{{'app': {}, 'x': {}}}",
                    self.of(Kind::Text, deeper, scope),
                    self.of(Kind::Text, deeper, scope)
                ),
                _ => {
                    let range = self.of(kind, deeper, scope);
                    let (key, value) = (format!("k{}", scope.len()), format!("v{}", scope.len()));
                    scope.push((key.clone(), Kind::Text));
                    scope.push((value.clone(), Kind::Text));
                    let transform = self.of(Kind::Text, deeper, scope);
                    scope.truncate(scope.len() - 2);
                    format!("{range}.transformMap({key}, {value}, {transform})")
                }
            },
        }
    }

    /// Generates a call of a library function: `T` stands for a string, `N` for a number, `L` and `M` for
    /// lists of them.
    fn library(&mut self, kind: Kind, depth: usize, scope: &mut Vec<(String, Kind)>) -> Option<String> {
        let templates: &[&str] = match kind {
            Kind::Bool => &[
                "M.isSorted()",
                "L.isSorted()",
                "isURL(T)",
                "isQuantity(T)",
                "isIP(T)",
                "isCIDR(T)",
                "isSemver(T)",
                "sets.contains(L, L)",
                "sets.intersects(M, M)",
                "sets.equivalent(L, L)",
                "quantity('1Gi').isGreaterThan(quantity(T))",
                "T.find('[a-z]+') == T",
                "!format.dns1123Label().validate(T).hasValue()",
                "ip('10.0.0.1') == ip(T)",
                "cidr('10.0.0.0/8').containsIP(T)",
                "url('https://a.b/' + T).getHost() == T",
                "semver('1.2.3').isLessThan(semver(T))",
                "ip.isCanonical(T)",
                "quantity('1') == quantity('1k')",
                "L.distinct() == L",
                "format.named(T).hasValue()",
            ],
            Kind::Int => &[
                "M.sum()",
                "M.max()",
                "M.min()",
                "T.indexOf(T)",
                "T.lastIndexOf(T)",
                "L.indexOf(T)",
                "T.split('e').size()",
                "quantity('50').asInteger()",
                "M.slice(0, 1)[0]",
                "T.findAll('[aeiou]').size()",
                "lists.range(3)[1]",
                "semver('1.2.3').minor()",
                "cidr('10.0.0.0/8').prefixLength()",
                "quantity('1').compareTo(quantity('2'))",
                "ip('::1').family()",
            ],
            Kind::Text => &[
                "T.lowerAscii()",
                "T.upperAscii()",
                "T.trim()",
                "T.substring(1)",
                "T.substring(0, 2)",
                "T.replace('e', T)",
                "T.replace(T, 'x', 1)",
                "L.join()",
                "L.join(T)",
                "T.charAt(0)",
                "T.find('[a-m]+')",
                "'%s-%d'.format([T, N])",
                "strings.quote(T)",
                "T.split('')[0]",
                "url('https://a.b:8/c').getPort()",
                "L.sort()[0]",
                "L.max()",
                "T.reverse()",
            ],
            Kind::Numbers => &[
                "M.sort()",
                "M.distinct()",
                "M.reverse()",
                "lists.range(N)",
                "[M, M].flatten()",
                "M.slice(0, 1)",
                "M.sortBy(s, -s)",
            ],
            Kind::Texts => &[
                "T.split('e')",
                "T.split('e', 2)",
                "L.sort()",
                "L.distinct()",
                "T.findAll('[a-z]')",
                "T.findAll('[a-z]', 2)",
                "L.sortBy(s, s.size())",
                "L.reverse()",
            ],
            _ => return None,
        };
        let template = self.pick(templates);
        let mut text = String::new();
        for (index, character) in template.char_indices() {
            let alone = !template[index + 1..].starts_with(|next: char| next.is_ascii_alphabetic())
                && !template[..index].ends_with(|before: char| before.is_ascii_alphabetic());
            match character {
                'T' if alone => text.push_str(&self.of(Kind::Text, depth, scope)),
                'N' if alone => text.push_str(&self.of(Kind::Int, depth, scope)),
                'L' if alone => text.push_str(&self.of(Kind::Texts, depth, scope)),
                'M' if alone => text.push_str(&self.of(Kind::Numbers, depth, scope)),
                other => text.push(other),
            }
        }
        Some(text)
    }

    fn any_of(&mut self, kinds: &[Kind], depth: usize, scope: &mut Vec<(String, Kind)>) -> String {
        let kind = self.pick(kinds);
        self.of(kind, depth, scope)
    }

    fn list(&mut self, kind: Kind, depth: usize, scope: &mut Vec<(String, Kind)>) -> String {
        let item = if kind == Kind::Numbers { Kind::Int } else { Kind::Text };
        match self.below(5) {
            0 => self.leaf(kind),
            1 => format!("[{}, {}]", self.of(item, depth, scope), self.of(item, depth, scope)),
            2 => format!("({} + {})", self.of(kind, depth, scope), self.of(kind, depth, scope)),
            choice => {
                let range = self.of(kind, depth, scope);
                let name = format!("x{}", scope.len());
                scope.push((name.clone(), item));
                let text = match choice {
                    3 => format!("{range}.map({name}, {})", self.of(item, depth, scope)),
                    _ => format!("{range}.filter({name}, {})", self.of(Kind::Bool, depth, scope)),
                };
                scope.pop();
                text
            }
        }
    }

    fn condition(&mut self, depth: usize, scope: &mut Vec<(String, Kind)>) -> String {
        match self.below(13) {
            0 => format!("!{}", self.of(Kind::Bool, depth, scope)),
            1 => format!("({} && {})", self.of(Kind::Bool, depth, scope), self.of(Kind::Bool, depth, scope)),
            2 => format!("({} || {})", self.of(Kind::Bool, depth, scope), self.of(Kind::Bool, depth, scope)),
            3 | 4 => {
                let kind = self.pick(&[Kind::Int, Kind::Double, Kind::Text]);
                let operator = self.pick(&["<", "<=", ">", ">=", "==", "!="]);
                format!("{} {operator} {}", self.of(kind, depth, scope), self.of(kind, depth, scope))
            }
            5 => {
                let kind = self.pick(&KINDS);
                let operator = self.pick(&["==", "!="]);
                format!("({} {operator} {})", self.of(kind, depth, scope), self.of(kind, depth, scope))
            }
            6 => {
                let function = self.pick(&["startsWith", "endsWith", "contains", "matches"]);
                format!("{}.{function}({})", self.of(Kind::Text, depth, scope), self.of(Kind::Text, 0, scope))
            }
            7 => format!(
                "({} in {})",
                self.of(Kind::Text, depth, scope),
                self.any_of(&[Kind::Texts, Kind::Map], depth, scope)
            ),
            8 => {
                format!("({} in {})", self.of(Kind::Int, depth, scope), self.of(Kind::Numbers, depth, scope))
            }
            9 => self
                .pick(&[
                    "has(self.maybe)",
                    "has(self.spec.inner)",
                    "has(self.labels.app)",
                    "has(self.labels.none)",
                ])
                .to_owned(),
            10 => self.leaf(Kind::Bool),
            11 => {
                let range = self.of(Kind::Items, depth, scope);
                let (name, quantifier) =
                    (format!("e{}", scope.len()), self.pick(&["all", "exists", "exists_one"]));
                scope.push((format!("{name}.port"), Kind::Int));
                scope.push((format!("{name}.name"), Kind::Text));
                let predicate = self.of(Kind::Bool, depth, scope);
                scope.truncate(scope.len() - 2);
                format!("{range}.{quantifier}({name}, {predicate})")
            }
            _ => {
                let kind = self.pick(&[Kind::Numbers, Kind::Texts]);
                let range = self.of(kind, depth, scope);
                let (name, quantifier) =
                    (format!("e{}", scope.len()), self.pick(&["all", "exists", "exists_one"]));
                scope.push((name.clone(), if kind == Kind::Numbers { Kind::Int } else { Kind::Text }));
                let predicate = self.of(Kind::Bool, depth, scope);
                scope.pop();
                format!("{range}.{quantifier}({name}, {predicate})")
            }
        }
    }

    fn leaf(&mut self, kind: Kind) -> String {
        match kind {
            Kind::Bool => self.pick(&[
                "true",
                "false",
                "self.enabled",
                "any == 7",
                "self.port == '80%'",
                "self.when < self.later",
                "self.span > duration('1m')",
                "self.data == b'hello'",
                "oldSelf.hasValue()",
                "self.set == self.other",
                "self.items == self.items",
                "self.labels == self.labels",
                "type(self.port) == string",
                "has(self.bounds.x.low)",
                "has(self.bounds.q)",
                "self.bounds.x == self.bounds.y",
                "self.list.exists(i, v, i == v)",
                "self.labels.all(k, v, k != v)",
                "self.maybe == null",
                "'app' in self.labels",
                "self.day == timestamp('2024-02-29T00:00:00Z')",
            ]),
            Kind::Int => self.pick(&[
                "0",
                "1",
                "-2",
                "5",
                "self.replicas",
                "self.minReplicas",
                "self.list[1]",
                "any",
                "self.spec.count",
                "self.bounds['x'].low",
            ]),
            Kind::Double => self.pick(&["0.5", "-1.0", "2e3", "self.ratio"]),
            Kind::Text => self.pick(&[
                "''",
                "'a'",
                "'web'",
                "\"two\"",
                "self.name",
                "self.free",
                "self.mode",
                "self.spec.inner.deep",
                "self.words[0]",
                "self.labels.app",
                "self.a__dot__b__dash__c__slash__d",
            ]),
            Kind::Numbers => self.pick(&[
                "[1, 2, 3]",
                "self.list",
                "[self.replicas]",
                "self.nested[0]",
                "[7]",
                "self.list.transformList(i, v, i * v)",
                "self.list.transformList(i, v, v > 1, i)",
                "[?self.list[?0], ?self.list[?9]]",
                "self.nested.map(n, n.size())",
            ]),
            Kind::Texts => self.pick(&[
                "['a', 'b']",
                "self.set",
                "self.words",
                "self.other",
                "[self.name]",
                "self.spec.inner.list",
            ]),
            Kind::Items => self.pick(&["self.items", "self.items"]),
            Kind::Map => self.pick(&["self.labels", "{'app': 'x'}", "self.labels"]),
        }
        .to_owned()
    }
}
