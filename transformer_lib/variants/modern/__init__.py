"""What newer models, such as Llama and its relatives, change in every layer."""
