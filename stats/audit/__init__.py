"""What an audit finds, whatever it looks at: findings with their verdicts, and its options."""
