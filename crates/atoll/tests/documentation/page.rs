//! The examples of a Markdown page.

/// One step of a page, in the order in which a reader meets it.
#[derive(Debug, PartialEq, Eq)]
pub enum Example {
    /// A block that begins with `# file: NAME`.
    File { name: String, content: String },
    /// A line `$ COMMAND` of a console block and the output that follows it.
    Command { command: String, expected: Vec<String> },
}

pub fn examples(page: &str) -> Vec<Example> {
    let mut examples = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        match block.first().and_then(|first| first.strip_prefix("# file: ")) {
            Some(name) => {
                let content = block.iter().map(|line| format!("{line}\n")).collect();
                examples.push(Example::File { name: name.trim().to_owned(), content });
            }
            None if language == "console" => examples.extend(commands(&block)),
            None => {}
        }
    }
    examples
}

fn commands(block: &[&str]) -> Vec<Example> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for line in block {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), Vec::new())),
            (None, Some((command, expected))) if expected.is_empty() && command.ends_with('\\') => {
                command.push('\n');
                command.push_str(line);
            }
            (None, Some((_, expected))) => expected.push((*line).to_owned()),
            (None, None) => panic!("a console block begins with a command, not with {line:?}"),
        }
    }
    commands.into_iter().map(|(command, expected)| Example::Command { command, expected }).collect()
}

#[test]
fn blocks_become_files_and_commands() {
    let page = "Text\n```yaml\n# file: a.yaml\nkey: 1\n```\n```console\n$ one \\\n  more\nout\n$ two\n```\n```\n$ not run\n```\n";
    let command = |command: &str, expected: &[&str]| Example::Command {
        command: command.to_owned(),
        expected: expected.iter().map(|line| (*line).to_owned()).collect(),
    };
    let file = Example::File { name: "a.yaml".to_owned(), content: "# file: a.yaml\nkey: 1\n".to_owned() };
    assert_eq!(examples(page), [file, command("one \\\n  more", &["out"]), command("two", &[])]);
}
