"""Every block of the how-to guides is executed as a reader would do it, or says why not."""

from pathlib import Path

import pytest

from docs.walkthrough import BlockFailed, Walkthrough, blocks_of, walked_pages
from tests.docs.generating import assert_fresh

GUIDES = walked_pages()[1:]
EXECUTED = {"sh", "python"}
SHOWN = {"ini", "text", "toml"}


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_guide_blocks_succeed_and_print_what_is_shown(page: Path) -> None:
    assert_fresh(page)


@pytest.mark.parametrize("page", walked_pages(), ids=lambda page: page.stem)
def test_blocks_are_executed_or_say_why_not(page: Path) -> None:
    blocks = blocks_of(page.read_text())
    assert page.read_text().count("```") == 2 * len(blocks)
    assert {each.language for each in blocks} <= EXECUTED | SHOWN
    assert any(each.language in EXECUTED and each.reason is None for each in blocks)


def walked(page: str) -> str:
    with Walkthrough(page) as walk:
        return walk.finish()


class TestWalkthrough:
    """Pages of a few lines, to see that the execution notices what a reader would."""

    def test_folder_and_variables_and_functions_last_from_block_to_block(self) -> None:
        page = """```sh
word=kept
say() { echo "$word"; }
```

```toml
# saved.toml: a comment
key = 1
```

```python
from pathlib import Path

number = 6
```

```python
print(number * 7, Path("saved.toml").read_text().splitlines()[1])
Path("written").touch()
```

```sh
ls written
say
```
"""
        assert walked(page) == "written\nkept"
        with Walkthrough(page) as walk:
            assert walk.output_above(page.index("```sh\nls")) == "42 key = 1"

    def test_block_with_reason_is_left_out(self) -> None:
        assert walked("```sh\necho yes\n```\n\n<!-- not run: no -->\n```sh\nfalse\n```\n") == "yes"

    @pytest.mark.parametrize("code", ["false", "false | cat", "echo $unset", "incrowd fly"])
    def test_failing_shell_block_is_noticed(self, code: str) -> None:
        with pytest.raises(BlockFailed):
            walked(f"```sh\n{code}\ntrue\n```\n")

    def test_failing_python_block_is_noticed(self) -> None:
        with pytest.raises(ZeroDivisionError):
            walked("```python\n1 / 0\n```\n")

    def test_background_block_runs_until_the_end_and_is_interrupted(self) -> None:
        page = """```sh
# Terminal 1: keep it running
trap 'rm alive; echo over; exit 0' INT
touch alive
echo '{"ready": true}'
while true; do sleep 0.1; done
```

```sh
ls alive
```
"""
        assert walked(page) == "alive"

    @pytest.mark.parametrize(
        "code", ["echo '{}'", "echo '{\"ready\": true}'; trap 'exit 3' INT; sleep 60; exit 4"]
    )
    def test_background_block_that_ends_badly_is_noticed(self, code: str) -> None:
        with pytest.raises(BlockFailed):
            walked(f"```sh\n# keep it running\n{code}\n```\n")
