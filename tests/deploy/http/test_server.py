"""How the service is called."""

import subprocess

import pytest

from munkey.deploy.http.server import TOKEN, in_a_shell


@pytest.mark.parametrize("from_file", [True, False])
def test_the_printed_command_finds_the_token_where_it_was_given(from_file, tmp_path):
    file = tmp_path / "the service's token"
    file.write_text("from the file\n")
    header = f'printf %s "Authorization: Bearer {in_a_shell(file if from_file else None)}"'
    done = subprocess.run(
        ["bash", "-c", header], env={TOKEN: "from the environment"}, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"Authorization: Bearer from the {'file' if from_file else 'environment'}"
