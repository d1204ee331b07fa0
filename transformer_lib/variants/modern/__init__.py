"""What models of today do otherwise in every layer, as Llama and its relatives."""
